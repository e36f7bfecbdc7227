package importer_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headway-bench/headway/report/bundle"
	"github.com/headway-bench/headway/report/importer"
)

// hostile are values of the wrong kind or size, for any key of a file.
var hostile = []any{nil, "<x>|\n\x1b[31m", -5.0, 1e308, []any{nil, -1.0}}

// TestReadOfWrongValues puts each hostile value under each key of the files
// in turn. What is read all the same makes a result that holds to the schema,
// where no measured figure is below 0.
func TestReadOfWrongValues(t *testing.T) {
	for _, name := range []string{"vllm_c8.json", "sglang.jsonl", "stage_0_lifecycle_metrics.json", "inferencex.json"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			var doc map[string]any
			if err := json.NewDecoder(bytes.NewReader(text)).Decode(&doc); err != nil {
				t.Fatal(err)
			}
			eachKey(doc, "", func(path string, value any) {
				b, err := json.Marshal(doc)
				if err != nil {
					t.Fatal(err)
				}
				r, err := importer.Read(bytes.NewReader(b), name)
				if err != nil {
					return
				}
				if b, err = bundle.Encode(r); err != nil {
					t.Fatalf("%s = %v: %v", path, value, err)
				}
				if _, err := bundle.Read(bytes.NewReader(b), "imported"); err != nil {
					t.Errorf("%s = %v: %v", path, value, err)
				}
			})
		})
	}
}

// eachKey calls try with each hostile value at each key of v; of a list the
// first element stands for all.
func eachKey(v any, path string, try func(path string, value any)) {
	switch v := v.(type) {
	case map[string]any:
		for key, old := range v {
			for _, value := range hostile {
				v[key] = value
				try(path+"."+key, value)
			}
			v[key] = old
			eachKey(old, path+"."+key, try)
		}
	case []any:
		if len(v) > 0 {
			eachKey(v[0], path+"[0]", try)
		}
	}
}

func TestReadTakesNumbersOfTextOnlyWhereTheyAreFigures(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "vllm_c8.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{`"NaN"`, `"inf"`, `-3`, `1e300`} {
		var doc map[string]json.RawMessage
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		doc["mean_ttft_ms"] = json.RawMessage(value)
		b, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		r, err := importer.Read(strings.NewReader(string(b)), "x.json")
		if err != nil {
			t.Fatal(err)
		}
		if v, ok := r.Rungs[0].TTFT.Mean.Float(); ok {
			t.Errorf("%s is %g, want unknown", value, v)
		}
	}
}
