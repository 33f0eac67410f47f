package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"helixbench/procfs"
)

// serve runs helix serve until stop.
func (b *bench) serve(dir string) (stop func()) {
	c := b.command(b.helix, "--data-dir", dir, "--quiet", "serve", "--no-link")
	check(c.Start())
	_ = dial(dir).Close()
	return func() {
		check(c.Process.Signal(os.Interrupt))
		_ = c.Wait()
	}
}

// browser is a running Chromium.
type browser struct {
	pid  int
	stop func()
	page func(out any) error // reads paintTimes
}

// startChromium measures one start and ends it.
func (b *bench) startChromium(dir string) (t times) {
	r := b.chromium(dir)
	defer r.stop()
	began, err := procfs.Started(r.pid)
	check(err)
	wait(func() (err error) {
		t, err = t.read(began, r.page)
		return err
	})
	t.used = used(r.pid)
	return t
}

// chromium opens the page of a running helix serve as an application. Its profile is kept from start
// to start.
func (b *bench) chromium(dir string) *browser {
	link, err := b.command(b.helix, "--data-dir", dir, "ui", "--print").Output()
	check(err)
	profile := filepath.Join(b.dir, "profile")
	port := filepath.Join(profile, "DevToolsActivePort")
	if err := os.Remove(port); err != nil && !os.IsNotExist(err) {
		check(err)
	}
	c := b.command("chromium", "--app="+strings.TrimSpace(string(link)), "--user-data-dir="+profile, "--remote-debugging-port=0", "--remote-allow-origins=*",
		"--no-sandbox", "--no-first-run", "--disable-background-networking", "--window-size=1200,800")
	c.Stderr = nil
	check(c.Start())
	var address string
	wait(func() error {
		text, err := os.ReadFile(port)
		if err != nil {
			return err
		}
		number, _, ok := strings.Cut(string(text), "\n")
		if !ok {
			return errors.New("the port is not written yet")
		}
		address, err = pageAddress(number)
		return err
	})
	return &browser{pid: c.Process.Pid, page: func(out any) error { return evaluate(address, out) }, stop: func() {
		check(c.Process.Signal(os.Interrupt))
		_ = c.Wait()
	}}
}

// pageAddress returns the address of the page's debugger.
func pageAddress(port string) (string, error) {
	resp, err := http.Get("http://127.0.0.1:" + port + "/json/list")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	var all []struct {
		Type                 string
		URL                  string
		WebSocketDebuggerURL string `json:"webSocketDebuggerUrl"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		return "", err
	}
	for _, p := range all {
		if p.Type == "page" && strings.HasPrefix(p.URL, "http://127.0.0.1") {
			return p.WebSocketDebuggerURL, nil
		}
	}
	return "", fmt.Errorf("no page among %d", len(all))
}

// evaluate reads paintTimes over the DevTools protocol.
func evaluate(address string, out any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, _, err := websocket.Dial(ctx, address, nil) //nolint:bodyclose // the connection is its body
	if err != nil {
		return err
	}
	defer c.CloseNow() //nolint:errcheck // nothing more is read
	if err := wsjson.Write(ctx, c, map[string]any{"id": 1, "method": "Runtime.evaluate", "params": map[string]any{"expression": "(() => {" + paintTimes + "})()", "returnByValue": true}}); err != nil {
		return err
	}
	var answer struct {
		Result struct {
			Result struct{ Value json.RawMessage }
		}
	}
	if err := wsjson.Read(ctx, c, &answer); err != nil {
		return err
	}
	return json.Unmarshal(answer.Result.Result.Value, out)
}
