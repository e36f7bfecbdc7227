package arrival_test

import (
	"fmt"

	"github.com/headway-bench/headway/loadgen/arrival"
)

// Two instances share one Poisson load of 10 requests per second.
func ExampleStripe() {
	for instance := range 2 {
		whole, err := arrival.Poisson(10, 42)
		if err != nil {
			panic(err)
		}
		share, err := arrival.Stripe(whole, instance, 2)
		if err != nil {
			panic(err)
		}
		for range 3 {
			at, _ := share.Next()
			fmt.Println(instance, at)
		}
	}
	// Output:
	// 0 79.762527ms
	// 0 687.793228ms
	// 0 1.079301717s
	// 1 311.490665ms
	// 1 867.30023ms
	// 1 1.275747216s
}
