package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/storage"
	"helixbench/figures"
)

const relayClients, relayHops = 100, 200

// relay measures the time from sending a Delta until the last of 100 programs has read it.
func (b *bench) relay() {
	d := b.device("relay")
	defer d.close()
	id := identity.Identity{User: d.db.LocalUser().ID, Scopes: identity.Write.Closed()}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := d.ServeRelay(w, r.WithContext(identity.With(r.Context(), id))); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}))
	defer srv.Close()
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	dial := func() *websocket.Conn {
		c, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(srv.URL, "http"), nil)
		check(err)
		check(c.Write(ctx, websocket.MessageText, []byte(`{"type":"Hello","cursor":"0","ack":true}`)))
		return c
	}
	arrived := make(chan time.Time, relayClients)
	var reading sync.WaitGroup
	for range relayClients - 1 {
		c := dial()
		reading.Go(func() {
			for {
				if _, _, err := c.Read(ctx); err != nil {
					return
				}
				arrived <- time.Now()
			}
		})
	}
	sender := dial()
	me := uuid.NewString()
	var each, last []float64
	for i := range relayHops + 10 {
		begin := time.Now()
		frame, err := json.Marshal(map[string]any{"type": "Delta", "entity_type": "memories", "entity_id": uuid.UUID(storage.NewID()), "data": map[string]any{"content": text(i, 300)}, "vector_clock": map[string]any{me: 1}, "device_id": me})
		check(err)
		check(sender.Write(ctx, websocket.MessageText, frame))
		_, _, err = sender.Read(ctx) // Ack
		check(err)
		var end time.Time
		for range relayClients - 1 {
			select {
			case at := <-arrived:
				if i >= 10 {
					each = append(each, float64(at.Sub(begin).Microseconds())/1000)
				}
				end = at
			case <-time.After(time.Minute):
				check(fmt.Errorf("hop %d did not arrive everywhere", i))
			}
		}
		if i >= 10 {
			last = append(last, float64(end.Sub(begin).Microseconds())/1000)
		}
	}
	cancel()
	reading.Wait()
	figures.Print("relay hop, 100 clients, p50", quantile(each, 0.5), "ms", 0, "")
	figures.Print("relay hop, 100 clients, p99", quantile(each, 0.99), "ms", 0, "")
	figures.Print("relay hop, last of 100 clients, p50", quantile(last, 0.5), "ms", 0, "")
}
