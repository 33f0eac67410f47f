package otlp

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"helix/backend/safehttp"
	"helix/backend/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

// collector accepts what an exporter sends, or fails.
type collector struct {
	mu      sync.Mutex
	status  int
	traces  []map[string]any
	metrics map[string]map[string]any
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status != 0 {
		w.WriteHeader(c.status)
		return
	}
	raw, _ := io.ReadAll(r.Body)
	var body struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []map[string]any }
		}
		ResourceMetrics []struct {
			ScopeMetrics []struct{ Metrics []map[string]any }
		}
	}
	if json.Unmarshal(raw, &body) != nil || r.Header.Get("Content-Type") != "application/json" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, rs := range body.ResourceSpans {
		for _, s := range rs.ScopeSpans {
			c.traces = append(c.traces, s.Spans...)
		}
	}
	c.metrics = map[string]map[string]any{}
	for _, rm := range body.ResourceMetrics {
		for _, s := range rm.ScopeMetrics {
			for _, m := range s.Metrics {
				c.metrics[m["name"].(string)] = m
			}
		}
	}
}

func exporter(t *testing.T, c *collector) *Exporter {
	t.Helper()
	server := httptest.NewServer(c)
	client := safehttp.New(safehttp.Options{AllowLoopback: func(int) bool { return true }, MaxRedirects: -1})
	t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return New(Options{Endpoint: server.URL + "/", HTTP: client, Version: "1"})
}

func TestCollectorGetsSpansOnceAndMetricsAsTotals(t *testing.T) {
	t.Parallel()
	c := &collector{}
	e := exporter(t, c)
	at := time.Unix(1, 5)
	e.Span(Span{Trace: [16]byte{15: 1}, ID: [8]byte{7: 2}, Parent: [8]byte{7: 3}, Name: "chat m", Kind: Client, Start: at, End: at.Add(time.Second), Attributes: []Attribute{String("a", "b"), Int("n", 1<<53+1)}, Error: "timeout"})
	for _, v := range []float64{0.005, 0.02, 0.03, 1000} {
		e.Record("seconds", "s", v, String("x", "1"))
	}
	e.Add("total", "{call}", 2)
	e.Add("total", "{call}", 3)
	e.Add("total", "{call}", 1, String("tool", "x"))
	e.Set("gauge", "1", 0.5)
	e.Send(t.Context())
	e.Send(t.Context())
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.traces) != 1 {
		t.Fatalf("%d spans", len(c.traces))
	}
	s, _ := json.Marshal(c.traces[0])
	for _, want := range []string{`"traceId":"00000000000000000000000000000001"`, `"spanId":"0000000000000002"`, `"parentSpanId":"0000000000000003"`, `"kind":3`, `"startTimeUnixNano":"1000000005"`, `"endTimeUnixNano":"2000000005"`, `{"key":"n","value":{"intValue":"9007199254740993"}}`, `"status":{"code":2,"message":"timeout"}`} {
		if !strings.Contains(string(s), want) {
			t.Errorf("the span lacks %s: %s", want, s)
		}
	}
	m, _ := json.Marshal(c.metrics)
	for _, want := range []string{`"bucketCounts":["1","1","1","0","0","0","0","0","0","0","0","0","0","0","1"]`, `"count":"4"`, `"asDouble":5`, `"asDouble":1`, `"isMonotonic":true`, `"gauge":{"dataPoints":[{"asDouble":0.5`} {
		if !strings.Contains(string(m), want) {
			t.Errorf("the metrics lack %s: %s", want, m)
		}
	}
	if e.Dropped() != 0 {
		t.Error(e.Dropped(), "dropped")
	}
}

func TestDeadCollectorCostsACounter(t *testing.T) {
	t.Parallel()
	c := &collector{status: 503}
	e := exporter(t, c)
	for range maxSpans + 5 {
		e.Span(Span{Name: "x"})
	}
	e.Send(t.Context()) // the metric for dropped data is lost too
	if e.Dropped() != maxSpans+6 {
		t.Errorf("%d dropped", e.Dropped())
	}
	e.Send(t.Context())
	if e.Dropped() != maxSpans+7 {
		t.Errorf("%d dropped", e.Dropped())
	}
	for i := range maxSeries + 1 {
		e.Record("many", "{token}", 1, Int("i", int64(i)))
	}
	if e.Dropped() < maxSpans+9 {
		t.Error("series without end")
	}
}
