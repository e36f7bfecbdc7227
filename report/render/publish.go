package render

import (
	"fmt"
	"strings"

	"github.com/headway-bench/headway/profiles"
	"github.com/headway-bench/headway/report/bundle"
)

// UnknownFieldsError says that a result can't be published, and what it takes.
type UnknownFieldsError struct {
	// Fields are names of the profile, such as "hardware.accelerator".
	Fields []string
}

func (e *UnknownFieldsError) Error() string {
	return fmt.Sprintf("not to be published: unknown %s; name them in the profile or with --set FIELD=VALUE and run again",
		strings.Join(e.Fields, ", "))
}

// Publish says whether a result names everything that a reader needs to
// compare or repeat it. It returns *UnknownFieldsError when it does not.
func Publish(r *bundle.Result) error {
	p := &r.Profile
	var missing []string
	need := func(field string, values ...string) {
		for _, v := range values {
			if v != "" && v != profiles.Unknown && v != "auto" {
				return
			}
		}
		missing = append(missing, field)
	}
	need("model.family", p.Model.Family)
	need("model.version", p.Model.Version)
	need("model.size", p.Model.Size)
	need("model.id", p.Model.ID, r.Server.ModelID)
	need("hardware.accelerator", p.Hardware.Accelerator)
	if p.Hardware.Count <= 0 {
		missing = append(missing, "hardware.count")
	}
	need("precision.weights", p.Precision.Weights)
	need("precision.kv_cache", p.Precision.KVCache)
	need("serving.engine", r.Server.Engine, p.Serving.Engine)
	need("serving.version", r.Server.Version, p.Serving.Version)
	if len(settings(r)) == 0 {
		missing = append(missing, "serving.settings")
	}
	in, out, _ := measuredLengths(r)
	if p.Workload.InputTokens.Kind == "" && !in.OK() {
		missing = append(missing, "workload.input_tokens")
	}
	if p.Workload.OutputTokens.Kind == "" && !out.OK() {
		missing = append(missing, "workload.output_tokens")
	}
	if len(missing) > 0 {
		return &UnknownFieldsError{missing}
	}
	return nil
}
