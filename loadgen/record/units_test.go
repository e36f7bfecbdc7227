package record

import (
	"reflect"
	"strings"
	"testing"
)

// TestUnitsAreInTheKeys is guidellm#256, in which milliseconds were shown as
// seconds: every time, rate, power and size of a rung says its unit in its key.
func TestUnitsAreInTheKeys(t *testing.T) {
	// Counts, shares and names need none.
	plain := strings.Fields(`index mode concurrency repeat refined verdict reasons code message value limit warnings window steady method
		requests sent completed failed cancelled censored reconnects retries failures first_errors totals input_tokens output_tokens
		tokens input output output_requested source in_flight_mean in_flight_max elasticity stamps client remote_addresses connections
		telemetry scrapes scrape_failures requests_running_mean requests_running_max requests_waiting_mean preemptions server_requests
		server_output_tokens kv_cache_usage_max gpu_utilisation_mean spec_decode_acceptance blocks`)
	for _, name := range keys(reflect.TypeFor[Rung](), nil) {
		known := strings.HasSuffix(name, "_ratio")
		for _, unit := range []string{"_s", "_ms", "_ns", "_w_mean", "_mib", "_ms_mean"} {
			known = known || strings.HasSuffix(name, unit)
		}
		for _, p := range plain {
			known = known || name == p
		}
		if !known {
			t.Errorf("%q has no unit", name)
		}
	}
}

// keys lists the JSON keys of a type and of what it holds.
func keys(of reflect.Type, names []string) []string {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice:
		return keys(of.Elem(), names)
	case reflect.Struct:
	default:
		return names
	}
	if of == reflect.TypeFor[Value]() || of == reflect.TypeFor[Dist]() {
		return names
	}
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = keys(f.Type, append(names, name))
	}
	return names
}
