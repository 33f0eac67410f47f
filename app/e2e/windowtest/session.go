package windowtest

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

//go:embed shim/automation.c
var automation []byte

func fields(out []byte) []string { return strings.Fields(string(out)) }

// BuildShim compiles the automation library into dir and returns its path. Programs that have it in
// LD_PRELOAD can be driven.
func BuildShim(dir string) (string, error) {
	flags, err := exec.Command("pkg-config", "--cflags", "--libs", "webkit2gtk-4.1").Output()
	if err != nil {
		return "", fmt.Errorf("pkg-config webkit2gtk-4.1: %w", err)
	}
	source, lib := filepath.Join(dir, "automation.c"), filepath.Join(dir, "automation.so")
	if err := os.WriteFile(source, automation, 0o600); err != nil {
		return "", err
	}
	args := append([]string{"-shared", "-fPIC", "-o", lib, source}, fields(flags)...)
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the shim: %w\n%s", err, out)
	}
	return lib, nil
}

// Session is a program whose page is driven.
type Session struct {
	base     string // address of the session
	driver   *exec.Cmd
	endOnce  sync.Once
	patience time.Duration
}

// Drive starts the driver at a free port, and with it the program. Each wait ends after patience.
func Drive(env []string, port int, patience time.Duration, program string, args ...string) (_ *Session, err error) {
	s := &Session{driver: exec.Command("WebKitWebDriver", fmt.Sprintf("--port=%d", port)), patience: patience}
	s.driver.Env, s.driver.Stderr = env, os.Stderr
	if err := s.driver.Start(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	root := fmt.Sprintf("http://127.0.0.1:%d", port)
	if err := s.eventually(func() error {
		_, err := s.request("GET", root+"/status", nil)
		return err
	}); err != nil {
		return nil, fmt.Errorf("the driver does not answer: %w", err)
	}
	raw, err := s.request("POST", root+"/session", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"webkitgtk:browserOptions": map[string]any{"binary": program, "args": args},
	}}})
	if err != nil {
		return nil, err
	}
	var made struct{ SessionID string }
	if err := json.Unmarshal(raw, &made); err != nil || made.SessionID == "" {
		return nil, fmt.Errorf("no session: %s", raw)
	}
	s.base = root + "/session/" + made.SessionID
	return s, nil
}

// eventually polls until fn returns no error, and returns the last one at the end of patience.
func (s *Session) eventually(fn func() error) error {
	deadline := time.Now().Add(s.patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := fn()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-tick.C
	}
}

// Request sends a request of the W3C protocol for this session.
func (s *Session) Request(method, path string, body any) (json.RawMessage, error) {
	return s.request(method, s.base+path, body)
}

func (s *Session) request(method, url string, body any) (json.RawMessage, error) {
	var r io.Reader
	if method == "POST" {
		if body == nil {
			body = map[string]any{}
		}
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequest(method, url, r)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	c := http.Client{Timeout: s.patience}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	var out struct{ Value json.RawMessage }
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s: %s", method, url, out.Value)
	}
	return out.Value, nil
}

// JS runs a script in the page and decodes its result into out, which may be nil.
func (s *Session) JS(out any, script string, args ...any) error {
	if args == nil {
		args = []any{}
	}
	raw, err := s.Request("POST", "/execute/sync", map[string]any{"script": script, "args": args})
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(raw, out)
}

// WaitText waits until the text of the page contains text.
func (s *Session) WaitText(text string) error {
	return s.eventually(func() error {
		var got string
		if err := s.JS(&got, "return document.body ? document.body.innerText : ''"); err != nil {
			return err
		}
		if !strings.Contains(got, text) {
			return fmt.Errorf("the page says %.400q", got)
		}
		return nil
	})
}

// Click clicks the first element that matches the CSS selector, once there is one.
func (s *Session) Click(css string) error {
	return s.eventually(func() error {
		raw, err := s.Request("POST", "/element", map[string]any{"using": "css selector", "value": css})
		if err != nil {
			return err
		}
		var el map[string]string
		if err := json.Unmarshal(raw, &el); err != nil {
			return err
		}
		for _, id := range el {
			_, err := s.Request("POST", "/element/"+id+"/click", nil)
			return err
		}
		return errors.New("no element")
	})
}

// Close ends the session, which closes the window, and the driver. It may be called again.
func (s *Session) Close() {
	s.endOnce.Do(func() {
		if s.base != "" {
			_, _ = s.Request("DELETE", "", nil) // a closed window answers "no such window"
		}
		_ = s.driver.Process.Kill()
		_ = s.driver.Wait()
	})
}
