package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"helix/backend/channels"
	"helixbench/figures"
)

// webhook measures the time until a signed message is accepted, which is after it is stored, alternating
// with the peer. The reply to each message arrives before the next one is sent.
func webhook(n int) {
	replies := make(chan struct{}, n)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		check(err)
		replies <- struct{}{}
	}))
	defer receiver.Close()
	dir, remove := temporary()
	defer remove()
	helix, node := self("-role", "serve", "webhook", receiver.URL), start("node", script(), filepath.Join(dir, "messages"), "secret")
	defer helix.stop()
	defer node.stop()
	var ours, theirs ready
	helix.read(&ours)
	node.read(&theirs)
	theirs.Secret = "secret"
	once := func(to ready, i int, at time.Time) float64 {
		body, err := json.Marshal(map[string]any{"id": fmt.Sprint(i), "contextId": fmt.Sprint(i%senders + 1), "senderId": fmt.Sprint(i%senders + 1), "text": fmt.Sprint("message ", i)})
		check(err)
		req, err := http.NewRequest(http.MethodPost, to.URL, bytes.NewReader(body))
		check(err)
		req.Header.Set("Helix-Signature", channels.Sign(to.Secret, at, body))
		began := time.Now()
		resp, err := http.DefaultClient.Do(req)
		check(err)
		_, err = io.Copy(io.Discard, resp.Body)
		took := milliseconds(began)
		check(err)
		check(resp.Body.Close())
		if resp.StatusCode != http.StatusAccepted {
			check(fmt.Errorf("message %d to %s: %s", i, to.URL, resp.Status))
		}
		return took
	}
	a, b := make([]float64, n), make([]float64, n)
	for i := range n {
		a[i] = once(ours, i, time.Now().Add(time.Duration(i)*pace))
		<-replies
		b[i] = once(theirs, i, time.Now())
	}
	x, y := quantile(a, 0.95), quantile(b, 0.95)
	figures.Print("webhook.accepted.p50", quantile(a, 0.5), "ms", quantile(a, 0.5)/quantile(b, 0.5), "node http, HMAC, fsync")
	figures.Print("webhook.accepted.p95", x, "ms", x/y, "node http, HMAC, fsync")
	figures.Print("webhook.accepted.p95", x, "ms", 0, "")
}

// script returns the path of the peer, wherever this program runs.
func script() string {
	for _, dir := range []string{"channels", ".", "build/bench/channels"} {
		if p := filepath.Join(dir, "hook.mjs"); exists(p) {
			return p
		}
	}
	check(fmt.Errorf("hook.mjs not found: run in build/bench"))
	return ""
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }
