package reference_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/headway-bench/headway/backends/reference"
)

// late are the faults that only times show.
var late = map[reference.Fault]bool{reference.SlowStart: true, reference.StallMid: true, reference.Buffered: true}

// TestFaultsShowAndAreCounted sends requests to a server with every fault and
// holds what a client sees of each against the server's own count.
func TestFaultsShowAndAreCounted(t *testing.T) {
	const tokens, requests = 6, 600
	var rules []string
	for _, name := range reference.FaultNames() {
		switch reference.Fault(name) {
		case reference.SlowStart, reference.StallMid:
			rules = append(rules, name+"=7%:30ms")
		case reference.HTTP429:
			rules = append(rules, name+"=7%:3s")
		default:
			rules = append(rules, name+"=7%")
		}
	}
	faults, err := reference.ParseFaults(strings.Join(rules, ",") + ",seed=11")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, "ttft=1ms,itl=1ms", func(c *reference.Config) { c.Faults = faults })
	var mu sync.Mutex
	seen := map[reference.Fault]int{}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range requests / 20 {
				f, err := observe(s.URL(), tokens)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				seen[f]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	_, page := send(t, "GET", s.URL()+"/metrics", "")
	drawn := map[reference.Fault]int{}
	for n := range uint64(requests) {
		drawn[faults.Draw(n).Fault]++
	}
	unseen := drawn[reference.NoFault]
	for _, name := range reference.FaultNames() {
		f := reference.Fault(name)
		if late[f] {
			unseen += drawn[f]
		} else if seen[f] != drawn[f] {
			t.Errorf("the client saw %d of %s, %d were drawn", seen[f], name, drawn[f])
		}
		if line := fmt.Sprintf("headway_faults_total{engine=\"0\",fault=%q,model_name=\"tiny\"} %d\n", name, drawn[f]); !strings.Contains(page, line) {
			t.Errorf("metrics have no %s", line)
		}
	}
	if seen[reference.NoFault] != unseen {
		t.Errorf("%d requests showed no fault, want %d", seen[reference.NoFault], unseen)
	}
}

// observe sends one request and names the fault that its answer shows.
func observe(url string, tokens int) (reference.Fault, error) {
	r, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(fmt.Sprintf(
		`{"prompt":"a","max_tokens":%d,"stream":true,"stream_options":{"include_usage":true}}`, tokens)))
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	switch r.StatusCode {
	case 429:
		if r.Header.Get("Retry-After") != "3" {
			return "", fmt.Errorf("Retry-After is %q, want 3", r.Header.Get("Retry-After"))
		}
		return reference.HTTP429, nil
	case 500:
		return reference.HTTP500, nil
	}
	var usage, finish string
	n, failed, done := 0, false, false
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.Contains(line, `"error"`):
			failed = true
		case strings.Contains(line, `"text":" `):
			n++
		case line == "data: [DONE]":
			done = true
		}
		if _, after, ok := strings.Cut(line, `"finish_reason":"`); ok {
			finish, _, _ = strings.Cut(after, `"`)
		}
		if _, after, ok := strings.Cut(line, `"completion_tokens":`); ok {
			usage, _, _ = strings.Cut(after, `}`)
		}
	}
	half := tokens / 2
	switch {
	case lines.Err() != nil && n <= half:
		return reference.Cut, nil
	case failed && done && n == 0:
		return reference.ErrorFirst, nil
	case failed && done && n == half:
		return reference.ErrorMid, nil
	case !done && finish == "" && n == half:
		return reference.Truncate, nil
	case done && finish == "stop" && n == 0 && usage == "0":
		return reference.NoOutput, nil
	case done && finish == "stop" && n == half && usage == fmt.Sprint(n):
		return reference.EarlyEnd, nil
	case done && finish == "length" && n == tokens && usage == fmt.Sprint(2*n+7):
		return reference.WrongUsage, nil
	case done && finish == "length" && n == tokens && usage == fmt.Sprint(n):
		return reference.NoFault, nil
	}
	return "", errors.Join(fmt.Errorf("%d tokens, finish reason %q, [DONE] %v, usage %s", n, finish, done, usage), lines.Err())
}

// TestLateFaults holds the faults that only times show to the emission log:
// lateness of the machine can only add to them.
func TestLateFaults(t *testing.T) {
	for _, tt := range []struct {
		rule  string
		check func(arrival int64, tokens []int64) bool
	}{
		{"slow_start=100%:20ms", func(a int64, at []int64) bool { return at[0]-a >= 21e6 }},
		{"stall=100%:20ms", func(a int64, at []int64) bool { return at[3]-a >= 24e6 }},
		{"buffered=100%", func(a int64, at []int64) bool { return at[0]-a >= 6e6 && at[0] == at[5] }},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			faults, err := reference.ParseFaults(tt.rule)
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			s := start(t, "ttft=1ms,itl=1ms", func(c *reference.Config) { c.Faults, c.EmissionLog = faults, &log })
			if f, err := observe(s.URL(), 6); f != reference.NoFault || err != nil {
				t.Fatalf("the answer shows %q, %v", f, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			var r struct {
				Arrival int64   `json:"arrival_ns"`
				Tokens  []int64 `json:"token_ns"`
				Fault   string  `json:"fault"`
			}
			_, line, _ := strings.Cut(log.String(), "\n")
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			if len(r.Tokens) != 6 || !strings.HasPrefix(tt.rule, r.Fault) || !tt.check(r.Arrival, r.Tokens) {
				t.Errorf("the log says %s", line)
			}
		})
	}
}

// TestFaultsWithoutStreaming: an answer in one piece fails as a whole.
func TestFaultsWithoutStreaming(t *testing.T) {
	for _, tt := range []struct {
		fault  reference.Fault
		status int // 0: the body breaks off
	}{{reference.ErrorMid, 500}, {reference.ErrorFirst, 500}, {reference.Truncate, 0}, {reference.Cut, 0}, {reference.NoOutput, 200}} {
		t.Run(string(tt.fault), func(t *testing.T) {
			s := start(t, "ttft=0s,itl=0s", func(c *reference.Config) {
				c.Faults.Rules = []reference.FaultRule{{Fault: tt.fault, Rate: 1}}
			})
			r, err := http.Post(s.URL()+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"a","max_tokens":4}`))
			if err != nil {
				if tt.status != 0 {
					t.Fatal(err)
				}
				return
			}
			defer r.Body.Close()
			var body bytes.Buffer
			_, err = body.ReadFrom(r.Body)
			if tt.status == 0 && err == nil || tt.status != 0 && (err != nil || r.StatusCode != tt.status) {
				t.Errorf("got %d %s, %v", r.StatusCode, body.String(), err)
			}
		})
	}
}
