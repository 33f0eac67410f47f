// Package otlp sends spans and metrics to a collector of OpenTelemetry, as OTLP over HTTP with JSON
// bodies. Nothing waits for the collector: data that it does not accept is dropped and counted.
package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"helix/backend/fault"
	"helix/backend/safehttp"
)

const (
	maxSpans  = 2048 // waiting to be sent
	maxSeries = 2000
	sendEach  = 10 * time.Second
	sendLimit = 5 * time.Second
)

// Options configure New. Endpoint and HTTP are required.
type Options struct {
	// Endpoint is the base URL of the collector: http on this computer, https elsewhere.
	Endpoint string
	HTTP     *safehttp.Client
	// Version is the version of the program.
	Version string
	Logger  *slog.Logger // nil: slog.Default()
}

// Exporter collects signals and sends them while Run runs. It is safe for concurrent use.
type Exporter struct {
	o       Options
	begun   time.Time
	dropped atomic.Int64

	mu     sync.Mutex
	spans  []Span
	series map[string]*series
	order  []*series
	gauges []observed
}

// observed is a gauge whose value is read before each transmission.
type observed struct {
	name, unit string
	value      func(context.Context) (float64, error)
}

// New returns an exporter. It sends nothing before Run.
func New(o Options) *Exporter {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Endpoint = strings.TrimRight(o.Endpoint, "/")
	return &Exporter{o: o, begun: time.Now(), series: map[string]*series{}}
}

// Attribute describes a span or a point. Value is a string, an int64, a float64 or a bool.
type Attribute struct {
	Key   string
	Value any
}

// String returns an attribute with a text value.
func String(key, value string) Attribute { return Attribute{key, value} }

// Int returns an attribute with an integer value.
func Int(key string, value int64) Attribute { return Attribute{key, value} }

// The kinds of spans.
const (
	Internal = 1
	Client   = 3
)

// Span is a finished operation.
type Span struct {
	Trace      [16]byte
	ID, Parent [8]byte // Parent is zero for the root of the trace
	Name       string
	Kind       int
	Start, End time.Time
	Attributes []Attribute
	// Error is a short name of the failure; "" if the operation succeeded.
	Error string
}

type parentKey struct{}

// WithParent returns a context for work within a span that has not finished yet.
func WithParent(ctx context.Context, trace [16]byte, span [8]byte) context.Context {
	return context.WithValue(ctx, parentKey{}, fmt.Sprintf("00-%x-%x-01", trace, span))
}

// TraceParent returns the span of WithParent as the value of a traceparent header (W3C Trace Context),
// or "" if there is none.
func TraceParent(ctx context.Context) string {
	text, _ := ctx.Value(parentKey{}).(string)
	return text
}

// Span adds a span, or drops it if too many are waiting.
func (e *Exporter) Span(s Span) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.spans) >= maxSpans {
		e.dropped.Add(1)
		return
	}
	e.spans = append(e.spans, s)
}

// Dropped returns the number of spans and metric reports that were not delivered.
func (e *Exporter) Dropped() int64 { return e.dropped.Load() }

// Run sends the collected data every ten seconds, and once more when ctx ends.
func (e *Exporter) Run(ctx context.Context) error {
	tick := time.NewTicker(sendEach)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			e.Send(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendLimit)
			defer cancel()
			e.Send(last)
			return nil
		}
	}
}

// Send sends the collected data. Metrics are totals since the start, so a lost report loses only
// one point in time.
func (e *Exporter) Send(ctx context.Context) {
	e.mu.Lock()
	gauges := e.gauges
	e.mu.Unlock()
	for _, g := range gauges {
		if v, err := g.value(ctx); err == nil {
			e.Set(g.name, g.unit, v)
		}
	}
	if n := e.Dropped(); n > 0 {
		e.Set("helix_telemetry_dropped_total", "{item}", float64(n))
	}
	now := time.Now()
	e.mu.Lock()
	spans, metrics := e.spans, e.metricsLocked(now)
	e.spans = nil
	e.mu.Unlock()
	if len(spans) > 0 {
		e.post(ctx, "/v1/traces", tracesBody(e.resource(), spans), int64(len(spans)))
	}
	if len(metrics) > 0 {
		e.post(ctx, "/v1/metrics", object{"resourceMetrics": []object{{"resource": e.resource(), "scopeMetrics": []object{{"scope": scope, "metrics": metrics}}}}}, 1)
	}
}

func (e *Exporter) post(ctx context.Context, path string, body object, lost int64) {
	var b bytes.Buffer
	err := json.NewEncoder(&b).Encode(body)
	if err == nil {
		var r *safehttp.Response
		r, err = e.o.HTTP.Do(ctx, safehttp.Request{Method: "POST", URL: e.o.Endpoint + path, Header: map[string][]string{"Content-Type": {"application/json"}}, Body: b.Bytes(), Timeout: sendLimit, SensitiveBody: true})
		if err == nil && r.Status >= 300 {
			err = fault.Unavailablef("The collector responded with status %d.", r.Status)
		}
	}
	if err != nil {
		if e.dropped.Add(lost) == lost { // log only the first loss; the counter has the rest
			e.o.Logger.Warn("the telemetry collector took nothing", "endpoint", e.o.Endpoint, "err", err)
		}
	}
}
