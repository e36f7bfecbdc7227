package render

import (
	"bytes"
	"fmt"
	"io"

	"github.com/headway-bench/headway/report/bundle"
)

// JSON writes exactly result.json.
func JSON(w io.Writer, r *bundle.Result) error {
	b, err := bundle.Encode(r)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// JSONArray writes the results of a matrix as one JSON array.
func JSONArray(w io.Writer, results []*bundle.Result) error {
	for i, r := range results {
		b, err := bundle.Encode(r)
		if err != nil {
			return err
		}
		lead := ",\n"
		if i == 0 {
			lead = "[\n"
		}
		if _, err := fmt.Fprint(w, lead, string(bytes.TrimSuffix(b, []byte("\n")))); err != nil {
			return err
		}
	}
	end := "\n]\n"
	if len(results) == 0 {
		end = "[]\n"
	}
	_, err := io.WriteString(w, end)
	return err
}
