package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"helix/backend/oauth/oauthtest"
)

func TestSignInOpensTheBrowserAndWaitsForItsEnd(t *testing.T) {
	t.Parallel()
	as := oauthtest.New(t)
	dir := dataFolder(t)
	visit := func(_ context.Context, address string) error {
		as.Visit(t, address)
		return nil
	}
	run := func(open func(context.Context, string) error, args ...string) (int, string) {
		t.Helper()
		var out bytes.Buffer
		code := Main(t.Context(), append([]string{"--data-dir", dir, "mcp"}, args...), Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Keyring: noKeyring{}, Worker: worker, Open: open})
		return code, out.String()
	}
	if code, out := run(nil, "add", "remote", as.URL+"/mcp"); code != 0 {
		t.Fatal(out)
	}
	if code, out := run(visit, "auth", "remote"); code != 0 || !strings.Contains(out, "Signed in.") {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out := run(nil, "auth", "remote", "--clear"); code != 0 || !strings.Contains(out, "Signed out.") || as.Count("revoke") != 2 {
		t.Errorf("exit %d: %s", code, out)
	}
	as.Set(oauthtest.Faults{Decline: true})
	if code, out := run(visit, "auth", "remote"); code != 4 || !strings.Contains(out, "declined") {
		t.Errorf("exit %d: %s", code, out)
	}
	ended, end := context.WithCancel(t.Context())
	var out bytes.Buffer
	code := Main(ended, []string{"--data-dir", dir, "mcp", "auth", "remote"}, Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Keyring: noKeyring{}, Worker: worker, Open: func(context.Context, string) error {
		end() // the user gives up
		return errors.New("no browser")
	}})
	if code == 0 || !strings.Contains(out.String(), as.URL+"/authorize") {
		t.Errorf("without a browser: exit %d: %s", code, out.String())
	}
}
