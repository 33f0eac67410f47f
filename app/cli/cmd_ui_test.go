package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"helix/backend/gateway"
)

// TestUIKeepsTheTicketPrivate acts as the browser: it gets a path, the link is in a file that only
// its owner may read, the link signs in once, and the file is removed.
func TestUIKeepsTheTicketPrivate(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	ctx, stop := context.WithCancel(t.Context())
	var out lockedBuffer
	ended := make(chan int, 1)
	go func() {
		ended <- Main(ctx, []string{"--data-dir", dir, "serve", "--addr", "127.0.0.1:0"}, Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &bytes.Buffer{}, Keyring: noKeyring{}, Worker: worker})
	}()
	defer func() {
		stop()
		<-ended
	}()
	out.wait(t, regexp.MustCompile(`http://127\.0\.0\.1:\d+`))
	link := regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/#[^"]*ticket=([0-9a-f]{64})`)
	var file string
	var tab *gateway.Client
	browser := func(ctx context.Context, arg string) error {
		file = arg
		if link.MatchString(arg) || strings.Contains(arg, "ticket") || filepath.Dir(arg) != filepath.Join(dir, "run") {
			t.Errorf("the opener is given %q", arg)
		}
		info, err := os.Stat(arg)
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%v, %v", info, err)
		}
		page, err := os.ReadFile(arg)
		m := link.FindStringSubmatch(strings.ReplaceAll(string(page), `\/`, "/"))
		if err != nil || m == nil {
			t.Errorf("no link in %s, %v", page, err)
			return errors.New("no link")
		}
		for i, want := range []int{200, 401} { // it works once
			resp, err := http.Post(m[1]+"/session", "application/json", strings.NewReader(`{"ticket":"`+m[2]+`"}`)) //nolint:noctx // loopback
			if err != nil {
				return err
			}
			var r struct{ Token string }
			err = json.NewDecoder(resp.Body).Decode(&r)
			resp.Body.Close()
			if err != nil || resp.StatusCode != want {
				t.Errorf("use %d of the ticket: %d, %v", i+1, resp.StatusCode, err)
			}
			if i == 0 {
				if tab, err = gateway.Dial(ctx, gateway.ClientOptions{URL: m[1], Token: r.Token, Scopes: []string{"admin"}}); err != nil {
					return err
				}
				var session struct{ Scopes []string }
				if err := tab.Call(ctx, "session.get", nil, &session); err != nil || !slices.Contains(session.Scopes, "admin") {
					t.Errorf("the tab has %v, %v; want the rights of the person", session.Scopes, err)
				}
			}
		}
		return nil
	}
	old := filepath.Join(dir, "run", "open-old.html")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(old, time.Unix(0, 0), time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := Main(t.Context(), []string{"--data-dir", dir, "ui"}, Env{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Keyring: noKeyring{}, Worker: worker, Open: browser})
	if tab != nil {
		tab.Close() //nolint:errcheck // the end of the test
	}
	if code != 0 || stdout.Len() > 0 || link.MatchString(stderr.String()) {
		t.Errorf("exit %d\n%s%s", code, stdout.String(), stderr.String())
	}
	for _, f := range []string{file, old} {
		if _, err := os.Stat(f); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", f, err)
		}
	}
	// Without a browser the link is printed.
	stdout.Reset()
	code = Main(t.Context(), []string{"--data-dir", dir, "ui"}, Env{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Keyring: noKeyring{}, Worker: worker,
		Open: func(context.Context, string) error { return errors.New("no browser") }})
	if code != 0 || !link.MatchString(stdout.String()) {
		t.Errorf("without a browser: exit %d\n%s", code, stdout.String())
	}
	if left, err := filepath.Glob(filepath.Join(dir, "run", "open-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
