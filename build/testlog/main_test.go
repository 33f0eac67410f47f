package main

import "testing"

func TestReason(t *testing.T) {
	for output, want := range map[string]string{
		"=== RUN   TestA\n    a_test.go:12: not here: set X\n--- SKIP: TestA (0.00s)\n": "not here: set X",
		"=== RUN   TestA\n--- SKIP: TestA (0.00s)\n":                                    "it gives no reason",
	} {
		if got := reason(output); got != want {
			t.Errorf("%q: %q, want %q", output, got, want)
		}
	}
}
