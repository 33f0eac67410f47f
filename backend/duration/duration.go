// Package duration turns numbers from outside into durations. Anyone may import it.
package duration

import (
	"math"
	"time"
)

// Of is n units. Where that does not fit, which is at 292 years, it is the longest duration
// there is, or the most negative one: a multiplication would wrap around.
func Of[N ~int | ~int32 | ~int64](n N, unit time.Duration) time.Duration {
	switch most := math.MaxInt64 / int64(unit); {
	case int64(n) > most:
		return math.MaxInt64
	case int64(n) < -most:
		return math.MinInt64
	}
	return time.Duration(n) * unit
}
