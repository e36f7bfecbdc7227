//go:build linux || darwin

package connect_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/connect"
	"github.com/headway-bench/headway/backends/internal/wiretest"
	"github.com/headway-bench/headway/loadgen"
	"github.com/headway-bench/headway/loadgen/record"
)

// fewFiles names the variable that has this test program offer a rung to the
// server it names, with few open files.
const fewFiles = "HEADWAY_TEST_FEW_FILES"

// TestFewFiles is sglang#647: where this machine has no file descriptor left for
// a connection, the request failed for a limit of this machine, and the rung is
// not valid.
func TestFewFiles(t *testing.T) {
	const users, spare = 64, 24
	if url := os.Getenv(fewFiles); url != "" {
		offerWithFewFiles(t, url, users, spare)
		return
	}
	met := make(chan struct{})
	release := sync.OnceFunc(func() { close(met) })
	s := wiretest.Serve(t, func(c *wiretest.Conn) bool {
		answer := about(c.Request)
		if generates(c.Request) {
			<-met // nobody is answered before some could not ask
			answer = twoTokens
		}
		_, err := io.WriteString(c, answer)
		return err == nil
	})
	t.Cleanup(release)
	child := exec.Command(os.Args[0], "-test.run=^TestFewFiles$", "-test.v")
	child.Env = append(os.Environ(), fewFiles+"="+s.URL)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var r record.Rung
	var said []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		text := lines.Text()
		said = append(said, text)
		if text == "limit" {
			release()
		} else if result, ok := strings.CutPrefix(text, "rung "); ok {
			if err := json.Unmarshal([]byte(result), &r); err != nil {
				t.Error(err)
			}
		}
	}
	if err := child.Wait(); err != nil {
		t.Fatalf("%v: %s", err, strings.Join(said, "\n"))
	}
	failed := r.Requests.Failures["client_limit"]
	if failed == 0 || r.Totals.Failed != failed || r.Totals.Completed != users-failed || r.Totals.OutputTokens != 2*(users-failed) {
		t.Errorf("totals %+v, failures %v", r.Totals, r.Requests.Failures)
	}
	if codes := warned(r); r.Verdict != record.Invalid || !strings.Contains(codes, "client_limit") || !strings.Contains(r.Requests.FailureText(), "too many open files") {
		t.Errorf("%s for %s: %s", r.Verdict, codes, r.Requests.FailureText())
	}
}

// offerWithFewFiles asks users times at once with room for fewer connections,
// and prints "limit" when that is met and the rung at the end.
func offerWithFewFiles(t *testing.T, url string, users, spare int) {
	client, err := connect.Open(t.Context(), connect.Options{URL: url, Dialect: "vllm", Model: "m", UserStamps: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	next, err := os.Open(os.DevNull) // the lowest descriptor that is free
	if err != nil {
		t.Fatal(err)
	}
	limit := uint64(next.Fd()) + uint64(spare)
	next.Close()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Skip(err)
	}
	if err := loadgen.CheckCapacity(users); err == nil || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("%d connections with %d files: %v", users, limit, err)
	}
	got := experiment{asked: 2, inFlight: users, scripts: make([]script, users)}.offer(t, limited{client, new(sync.Once)})
	result, err := json.Marshal(got.Rung)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("rung %s\n", result)
}

// limited is a client that prints when a limit of this machine is first met.
type limited struct {
	backends.Client
	once *sync.Once
}

func (l limited) Stream(ctx context.Context, q *backends.Request, sink backends.Sink) backends.Outcome {
	out := l.Client.Stream(ctx, q, sink)
	if out.Class == backends.ClientLimit {
		l.once.Do(func() { fmt.Println("limit") })
	}
	return out
}
