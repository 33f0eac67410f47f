package providers

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"helix/backend/fault"
)

// limited returns a router and a target with limits, outside of any call.
func limited(e Entry) (*Router, target) {
	return &Router{slots: map[string]chan struct{}{}, recent: map[string][]*started{}, left: map[string]*remaining{}}, target{name: "p", entry: e}
}

func TestCallsAMinuteAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, to := limited(Entry{RPM: 2})
		began := time.Now()
		for i, want := range []time.Duration{0, 10, 60, 70, 120} {
			release, err := r.slot(t.Context(), to, 1, nil)
			must(t, err)
			if got := time.Since(began); got != want*time.Second {
				t.Errorf("call %d began after %s, want %d s", i, got, want)
			}
			release(0)
			if i == 0 {
				time.Sleep(10 * time.Second)
			}
		}
	})
}

func TestTokensAMinuteAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, to := limited(Entry{TPM: 1000})
		began := time.Now()
		for i, c := range []struct {
			tokens, used int64
			at           time.Duration
		}{
			{600, 100, 0},   // it took less than its maximum
			{600, 0, 0},     // so this one fits; it is counted with its maximum, because no count was reported
			{400, 0, 60},    // waits for both
			{600, 0, 60},    // exactly fills a minute
			{5000, 0, 120},  // exceeds a minute's limit, so it runs alone
			{1, 5000, 180},  // waits until it no longer counts
			{900, 900, 240}, // the previous call's actual count matters, not its maximum
		} {
			release, err := r.slot(t.Context(), to, c.tokens, nil)
			must(t, err)
			if got := time.Since(began); got != c.at*time.Second {
				t.Errorf("call %d began after %s, want %d s", i, got, c.at)
			}
			release(c.used)
		}
	})
}

func TestCallsAtOnceAreLimitedAndServedInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, to := limited(Entry{MaxConcurrent: 1})
		first, err := r.slot(t.Context(), to, 1, nil)
		must(t, err)
		var order []int
		for i := range 5 {
			go func() {
				release, err := r.slot(t.Context(), to, 1, nil)
				if err == nil {
					order = append(order, i) // started one at a time
					release(0)
				}
			}()
			synctest.Wait()
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.slot(gone, to, 1, nil); !fault.Is(err, fault.Canceled) {
			t.Errorf("a caller who left got %v", err)
		}
		if order != nil {
			t.Errorf("%v went beside the first", order)
		}
		first(0)
		synctest.Wait()
		if !slices.Equal(order, []int{0, 1, 2, 3, 4}) {
			t.Errorf("the order is %v", order)
		}
	})
}

func TestACallerWhoLeavesWhileItWaitsForTheMinuteKeepsNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, to := limited(Entry{MaxConcurrent: 1, RPM: 1})
		release, err := r.slot(t.Context(), to, 1, nil)
		must(t, err)
		release(0)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.slot(short, to, 1, nil); !fault.Is(err, fault.Timeout) {
			t.Fatalf("a caller with a second got %v", err)
		}
		began := time.Now()
		release, err = r.slot(t.Context(), to, 1, nil)
		must(t, err)
		release(0)
		if got := time.Since(began); got != 59*time.Second {
			t.Errorf("the next one began after %s", got)
		}
	})
}

// When a service reports that its limits are used up, calls wait for the reset, before the service
// has to refuse one.
func TestCallsWaitForTheResetOfAService(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header http.Header
		tokens int64
		want   []time.Duration // start times of three calls
	}{
		"requests":        {http.Header{"X-Ratelimit-Remaining-Requests": {"1"}, "X-Ratelimit-Reset-Requests": {"20s"}}, 10, []time.Duration{0, 20 * time.Second, 20 * time.Second}},
		"tokens":          {http.Header{"X-Ratelimit-Remaining-Tokens": {"25"}, "X-Ratelimit-Reset-Tokens": {"1.5s"}}, 10, []time.Duration{0, 0, 1500 * time.Millisecond}},
		"seconds":         {http.Header{"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"7"}}, 10, []time.Duration{7 * time.Second, 7 * time.Second, 7 * time.Second}},
		"a time":          {http.Header{"Anthropic-Ratelimit-Requests-Remaining": {"0"}, "Anthropic-Ratelimit-Requests-Reset": {"2000-01-01T00:00:30Z"}}, 10, []time.Duration{30 * time.Second, 30 * time.Second, 30 * time.Second}},
		"plenty":          {http.Header{"X-Ratelimit-Remaining-Requests": {"100"}, "X-Ratelimit-Reset-Requests": {"20s"}}, 10, []time.Duration{0, 0, 0}},
		"too long":        {http.Header{"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"6h"}}, 10, []time.Duration{0, 0, 0}},
		"in the past":     {http.Header{"Anthropic-Ratelimit-Requests-Remaining": {"0"}, "Anthropic-Ratelimit-Requests-Reset": {"1999-01-01T00:00:30Z"}}, 10, []time.Duration{0, 0, 0}},
		"without a reset": {http.Header{"X-Ratelimit-Remaining-Requests": {"0"}}, 10, []time.Duration{0, 0, 0}},
		"not a number":    {http.Header{"X-Ratelimit-Remaining-Requests": {"few"}, "X-Ratelimit-Reset-Requests": {"20s"}}, 10, []time.Duration{0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, to := limited(Entry{})
				began := time.Now()
				r.learnLimits("p", c.header, began)
				for i, want := range c.want {
					release, err := r.slot(t.Context(), to, c.tokens, nil)
					must(t, err)
					release(0)
					if got := time.Since(began); got != want {
						t.Errorf("call %d began after %s, want %s", i, got, want)
					}
				}
				short, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				r.learnLimits("p", http.Header{"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"20s"}}, time.Now())
				if _, err := r.slot(short, to, 1, nil); !fault.Is(err, fault.Timeout) {
					t.Errorf("a caller with a second got %v", err)
				}
			})
		})
	}
}
