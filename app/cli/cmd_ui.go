package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"helix/backend/config"
	"helix/backend/fault"
)

type uiCmd struct {
	Print  bool     `help:"Print the link instead of opening the browser."`
	Scopes []string `default:"admin" help:"Scopes of the browser session: read, write, approve or admin, which includes the others."`
	Path   string   `help:"Page to open, such as /settings."`
}

type ticket struct {
	URL       string
	ExpiresAt time.Time
}

func (u *uiCmd) Run(c *command) error {
	running, err := c.remote(c.ctx)
	if err != nil {
		return err
	}
	if running == nil {
		return fault.Unavailablef("Helix is not running. Start it with `helix serve`.")
	}
	p := map[string]any{"scopes": u.Scopes}
	setIf(p, "path", u.Path)
	var opened error
	err = show(c, "sessions.ticket", p, func(t ticket) {
		if u.Print {
			fmt.Fprintln(c.env.Stdout, t.URL)
			return
		}
		if opened = c.openLink(t); opened != nil && !errors.Is(opened, context.Canceled) {
			fmt.Fprintln(c.env.Stdout, t.URL)
			c.say("Couldn't start a browser. Open the link within a minute; it works once.")
			opened = nil
		}
	})
	return errors.Join(err, opened)
}

// redirect returns a page that redirects a browser tab to link. The link contains the ticket, and
// everyone on this computer can see the arguments of a process, but not read a file of mode 0600.
func redirect(link string) string {
	script, _ := json.Marshal(link) // a string; < and & are escaped
	return fmt.Sprintf(`<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<title>Helix</title>
<script>location.replace(%s)</script>
<p><a href="%s">Open Helix</a>
`, script, html.EscapeString(link))
}

// openLink opens t in the browser through a private file, and waits until the tab is signed in or
// the ticket has expired. The file is removed before it returns.
func (c *command) openLink(t ticket) error {
	conf, err := config.Load(config.Options{DataDir: c.DataDir, EnvFile: c.EnvFile})
	if err != nil {
		return err
	}
	folder := conf.Paths().Runtime
	removeLinks(folder)
	f, err := os.CreateTemp(folder, "open-*.html") // created with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // the next one removes it
	_, err = f.WriteString(redirect(t.URL))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	open := c.env.Open
	if open == nil {
		open = openBrowser
	}
	began := time.Now()
	if err := open(c.ctx, f.Name()); err != nil {
		return err
	}
	expired := time.NewTimer(time.Until(t.ExpiresAt))
	defer expired.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return c.ctx.Err()
		case <-expired.C:
			c.say("The browser did not open Helix within a minute. Run the command again, or use --print.")
			return nil
		case <-tick.C:
			if c.browserSince(began) {
				return nil
			}
		}
	}
}

// browserSince reports whether a browser has signed in since began.
func (c *command) browserSince(began time.Time) bool {
	var list struct {
		Sessions []struct {
			Pipe        string
			ConnectedAt time.Time
			Current     bool
		}
	}
	if _, err := c.call("sessions.list", map[string]any{"limit": 100}, &list); err != nil {
		return false
	}
	for _, s := range list.Sessions {
		if s.Pipe == "websocket" && !s.Current && s.ConnectedAt.After(began) {
			return true
		}
	}
	return false
}

// removeLinks removes files that a killed command left behind, whose tickets have expired.
func removeLinks(folder string) {
	old, _ := filepath.Glob(filepath.Join(folder, "open-*.html")) //nolint:errcheck // a constant pattern
	for _, file := range old {
		if info, err := os.Lstat(file); err == nil && time.Since(info.ModTime()) > 2*time.Minute {
			os.Remove(file) //nolint:errcheck // the next one tries again
		}
	}
}

func openBrowser(ctx context.Context, file string) error {
	name, args := "xdg-open", []string{file}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", file}
	}
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select { // an opener that finds no browser exits at once; one that is the browser keeps running
	case err := <-ended:
		return err
	case <-time.After(2 * time.Second):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
