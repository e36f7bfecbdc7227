//go:build unix

package openai

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gosse "github.com/tmaxmax/go-sse"

	"github.com/headway-bench/headway/backends"
)

// serverVariable makes the test binary the benchmarks' server, a process of
// its own so that the CPU measured is the client's.
const serverVariable = "HEADWAY_BENCH_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serverVariable) != "" {
		benchServer()
		return
	}
	os.Exit(m.Run())
}

// benchServer streams as many events as the path names, at full speed, until
// its input ends.
func benchServer() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(l.Addr())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	var cache sync.Map
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			br := bufio.NewReader(c)
			for {
				r, err := http.ReadRequest(br)
				if err != nil {
					return
				}
				io.Copy(io.Discard, r.Body)
				n, _ := strconv.Atoi(strings.Split(r.URL.Path, "/")[1])
				answer, ok := cache.Load(n)
				if !ok {
					answer = []byte(benchAnswer(n))
					cache.Store(n, answer)
				}
				if _, err := c.Write(answer.([]byte)); err != nil {
					return
				}
			}
		}()
	}
}

func startBenchServer(b *testing.B) string {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverVariable+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return "http://" + strings.TrimSpace(addr)
}

// BenchmarkStream reads streams at full speed with 1 and with 512 tokens,
// beside the barest clients of the same bytes. CPU is this process's, so the
// cost of an event is the difference of the two lengths.
func BenchmarkStream(b *testing.B) {
	url := startBenchServer(b)
	clients := []struct {
		name string
		read func(b *testing.B, n int) func()
	}{
		{"headway", func(b *testing.B, n int) func() {
			client := open(b, url+"/"+strconv.Itoa(n), "vllm")
			return func() {
				if out := client.Stream(context.Background(), &backends.Request{MaxTokens: n, Prompt: backends.Prompt{Text: "x"}}, discard{}); out.Class != backends.OK {
					b.Error(out.Err)
				}
			}
		}},
		{"bare-gosse", func(b *testing.B, n int) func() { return bare(b, url, n, readSSE) }},
		{"bare-discard", func(b *testing.B, n int) func() { return bare(b, url, n, readAll) }},
	}
	for _, n := range []int{1, 512} {
		for _, c := range clients {
			b.Run(fmt.Sprintf("%s/tokens=%d", c.name, n), func(b *testing.B) {
				const workers = 32
				read := c.read(b, n)
				b.ReportAllocs()
				b.ResetTimer()
				start := cpuTime()
				var wait sync.WaitGroup
				var left = make(chan struct{}, b.N)
				for range b.N {
					left <- struct{}{}
				}
				close(left)
				for range workers {
					wait.Go(func() {
						for range left {
							read()
						}
					})
				}
				wait.Wait()
				used := cpuTime() - start
				b.ReportMetric(float64(used.Nanoseconds())/float64(b.N*n), "cpu-ns/token")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
			})
		}
	}
}

// bare is net/http and no more.
func bare(b *testing.B, url string, n int, read func(io.Reader) error) func() {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true}}
	b.Cleanup(client.CloseIdleConnections)
	return func() {
		resp, err := client.Post(url+"/"+strconv.Itoa(n)+"/v1/chat/completions", "application/json", strings.NewReader(`{"stream":true}`))
		if err != nil {
			b.Error(err)
			return
		}
		defer resp.Body.Close()
		if err := read(resp.Body); err != nil {
			b.Error(err)
		}
	}
}

func readSSE(r io.Reader) error {
	for _, err := range gosse.Read(r, &gosse.ReadConfig{MaxEventSize: 1 << 20}) {
		if err != nil {
			return err
		}
	}
	return nil
}

func readAll(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// cpuTime is what this process has used of the processors.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
