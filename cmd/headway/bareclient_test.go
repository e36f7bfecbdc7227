package main

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"

	gosse "github.com/tmaxmax/go-sse"
)

// bareClient is the least Go client: net/http and go-sse and nothing else. It
// sends -n requests of -tokens each, -c at a time.
func bareClient() {
	url := flag.String("url", "", "server")
	n := flag.Int("n", 1, "requests")
	c := flag.Int("c", 1, "at a time")
	tokens := flag.Int("tokens", 1, "tokens of each")
	flag.Parse()
	body := fmt.Sprintf(`{"model":"tiny-llama-3.1","stream":true,"ignore_eos":true,"max_tokens":%d,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"messages":[{"role":"user","content":%q}]}`,
		*tokens, strings.Repeat("tok ", 16))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: *c, DisableCompression: true}}
	left := make(chan struct{}, *n)
	for range *n {
		left <- struct{}{}
	}
	close(left)
	var wait sync.WaitGroup
	for range *c {
		wait.Go(func() {
			for range left {
				if err := bareRequest(client, *url+"/v1/chat/completions", body); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			}
		})
	}
	wait.Wait()
}

func bareRequest(client *http.Client, url, body string) error {
	resp, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return fmt.Errorf("HTTP %d: %s", resp.StatusCode, text)
	}
	for _, err := range gosse.Read(resp.Body, &gosse.ReadConfig{MaxEventSize: 1 << 20}) {
		if err != nil {
			return err
		}
	}
	return nil
}
