package connect_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/headway-bench/headway/backends"
	"github.com/headway-bench/headway/backends/connect"
)

// printer is a sink that prints the text of an answer as it comes.
type printer struct{}

func (printer) Sent(int64)             {}
func (printer) FirstByte(int64)        {}
func (printer) Event(e backends.Event) { fmt.Printf("%s|", e.Text) }

// A target is opened once, and asked as often as need be.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			io.WriteString(w, `{"data":[{"id":"tiny","owned_by":"vllm","max_model_len":512}]}`)
		case "/v1/chat/completions":
			io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\n\n"+
				"data: {\"choices\":[{\"delta\":{\"content\":\" there\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()

	client, err := connect.Open(context.Background(), connect.Options{URL: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	fmt.Println(client.Server().Dialect, client.Server().ModelID, client.Server().Why)
	out := client.Stream(context.Background(), &backends.Request{MaxTokens: 8, Prompt: backends.Prompt{Text: "Hi"}}, printer{})
	fmt.Println("", out.Class, out.Finish)
	// Output:
	// vllm tiny the models are owned by "vllm"
	// Hello| there| ok stop
}
