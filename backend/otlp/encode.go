package otlp

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

type object = map[string]any

var scope = object{"name": "helix"}

func (e *Exporter) resource() object {
	return object{"attributes": attributes([]Attribute{String("service.name", "helix"), String("service.version", e.o.Version)})}
}

func attributes(list []Attribute) []object {
	out := []object{}
	for _, a := range list {
		var v object
		switch x := a.Value.(type) {
		case string:
			v = object{"stringValue": x}
		case int64: // 64-bit numbers are strings in OTLP JSON
			v = object{"intValue": strconv.FormatInt(x, 10)}
		case float64:
			v = object{"doubleValue": x}
		case bool:
			v = object{"boolValue": x}
		}
		out = append(out, object{"key": a.Key, "value": v})
	}
	return out
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func tracesBody(resource object, spans []Span) object {
	var list []object
	for _, s := range spans {
		o := object{
			"traceId": hex.EncodeToString(s.Trace[:]), "spanId": hex.EncodeToString(s.ID[:]), "name": s.Name, "kind": s.Kind,
			"startTimeUnixNano": nanos(s.Start), "endTimeUnixNano": nanos(s.End), "attributes": attributes(s.Attributes),
		}
		if s.Parent != ([8]byte{}) {
			o["parentSpanId"] = hex.EncodeToString(s.Parent[:])
		}
		if s.Error != "" {
			o["status"] = object{"code": 2, "message": s.Error}
		}
		list = append(list, o)
	}
	return object{"resourceSpans": []object{{"resource": resource, "scopeSpans": []object{{"scope": scope, "spans": list}}}}}
}

// series is a metric with one set of attributes.
type series struct {
	name, unit string
	kind       int
	attributes []Attribute
	value      float64
	count      int64
	buckets    []int64 // one more than the bounds
	bounds     []float64
}

// The kinds of series.
const (
	sum = iota
	histogram
	gauge
)

// Bounds of histograms: durations in seconds and counts of tokens, as recommended by the
// OpenTelemetry conventions for models.
var (
	secondBounds = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	tokenBounds  = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
)

func (e *Exporter) at(kind int, name, unit string, list []Attribute) *series {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Attribute) int { return strings.Compare(a.Key, b.Key) })
	key := fmt.Sprint(name, list)
	s := e.series[key]
	if s == nil {
		if len(e.order) >= maxSeries {
			e.dropped.Add(1)
			return &series{buckets: make([]int64, len(tokenBounds)+1)}
		}
		s = &series{name: name, unit: unit, kind: kind, attributes: list}
		if kind == histogram {
			s.bounds = secondBounds
			if unit == "{token}" {
				s.bounds = tokenBounds
			}
			s.buckets = make([]int64, len(s.bounds)+1)
		}
		e.series[key] = s
		e.order = append(e.order, s)
	}
	return s
}

// Add adds to a total.
func (e *Exporter) Add(name, unit string, delta float64, attributes ...Attribute) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at(sum, name, unit, attributes).value += delta
}

// Record adds a value to a histogram.
func (e *Exporter) Record(name, unit string, value float64, attributes ...Attribute) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.at(histogram, name, unit, attributes)
	s.value += value
	s.count++
	n, _ := slices.BinarySearch(s.bounds, value)
	s.buckets[n]++
}

// Set sets a gauge.
func (e *Exporter) Set(name, unit string, value float64, attributes ...Attribute) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at(gauge, name, unit, attributes).value = value
}

// Observe registers a gauge; value is called before each transmission.
func (e *Exporter) Observe(name, unit string, value func(context.Context) (float64, error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gauges = append(e.gauges, observed{name, unit, value})
}

const cumulative = 2

func (e *Exporter) metricsLocked(now time.Time) []object {
	var out []object
	points := map[string][]object{}
	var first []*series
	for _, s := range e.order {
		p := object{"attributes": attributes(s.attributes), "startTimeUnixNano": nanos(e.begun), "timeUnixNano": nanos(now)}
		if s.kind == histogram {
			counts := make([]string, len(s.buckets))
			for i, n := range s.buckets {
				counts[i] = strconv.FormatInt(n, 10)
			}
			p["count"], p["sum"], p["bucketCounts"], p["explicitBounds"] = strconv.FormatInt(s.count, 10), s.value, counts, s.bounds
		} else {
			p["asDouble"] = s.value
		}
		if points[s.name] == nil {
			first = append(first, s)
		}
		points[s.name] = append(points[s.name], p)
	}
	for _, s := range first {
		m := object{"name": s.name, "unit": s.unit}
		switch s.kind {
		case sum:
			m["sum"] = object{"dataPoints": points[s.name], "aggregationTemporality": cumulative, "isMonotonic": true}
		case histogram:
			m["histogram"] = object{"dataPoints": points[s.name], "aggregationTemporality": cumulative}
		case gauge:
			m["gauge"] = object{"dataPoints": points[s.name]}
		}
		out = append(out, m)
	}
	return out
}
