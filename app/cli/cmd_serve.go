package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"helix/backend"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/gateway"
)

type serveCmd struct {
	Addr        string `help:"Loopback address to listen on; port 0 takes any free one." placeholder:"HOST:PORT"`
	SandboxPort int    `help:"Also serve POST /execute on this loopback port."`
	VoicePort   int    `help:"Also serve POST /transcribe on this loopback port."`
	SyncPort    int    `help:"Also serve the sync relay, /sync and /ws, on this loopback port."`
	OnlyPorts   bool   `hidden:"" help:"Use any free port."`
	Link        *bool  `negatable:"" help:"Print a one-time link that opens Helix in a browser. Default: in a terminal."`
}

// extra returns the ports to open besides the gateway's.
func (s *serveCmd) extra() []gateway.Extra {
	var ports []gateway.Extra
	if s.SandboxPort != 0 {
		ports = append(ports, gateway.Extra{Port: s.SandboxPort, Routes: map[string]string{"/execute": "/execute"}})
	}
	if s.VoicePort != 0 {
		ports = append(ports, gateway.Extra{Port: s.VoicePort, Routes: map[string]string{"/transcribe": "/transcribe"}})
	}
	if s.SyncPort != 0 {
		ports = append(ports, gateway.Extra{Port: s.SyncPort, Routes: map[string]string{"/sync": "/sync", "/ws": "/sync"}})
	}
	return ports
}

func (s *serveCmd) Run(c *command) error {
	o := c.options()
	o.Web, o.Listen, o.Extra = c.env.Web, true, s.extra()
	o.Flags = map[string]string{"gateway.enabled": "true"}
	if s.Addr != "" {
		o.Flags["gateway.addr"] = s.Addr
	} else if s.OnlyPorts {
		o.Flags["gateway.addr"] = "127.0.0.1:0"
	}
	o.Progress = func(step string, done, total int64) {
		c.say("Updating the database: %s (%d of %d). Your data was backed up first.", step, done, total)
	}
	be, err := c.openBackend(c.ctx, o)
	if err != nil {
		return err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(c.ctx))
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- be.Run(run) }()
	if err := be.Gateway.Listen(c.ctx); err != nil {
		cancel()
		return errors.Join(err, <-ended, be.Close())
	}
	fmt.Fprintln(c.env.Stdout, "Helix", backend.Version, "serves", be.Gateway.URL())
	if link := s.Link; link != nil && *link || link == nil && isTerminal(c.env.Stdout) {
		s.printLink(c, be)
	}
	select {
	case err = <-ended:
	case <-c.ctx.Done():
		c.say("Stopping. Running work has up to 8 seconds to finish.")
		stop, done := context.WithTimeout(context.Background(), 12*time.Second)
		defer done()
		err = be.Stop(stop)
	}
	return errors.Join(err, be.Close())
}

func (s *serveCmd) printLink(c *command, be *backend.Backend) {
	t, err := be.Gateway.SessionsTicket(be.Local(c.ctx), gateway.TicketParams{Scopes: []string{"admin"}})
	if err != nil {
		c.say("Couldn't create a link: %s", fault.As(err).Message)
		return
	}
	fmt.Fprintf(c.env.Stdout, "\nOpen this in a browser on this computer within a minute; it works once:\n\n  %s\n\n", t.URL)
	fmt.Fprintln(c.env.Stdout, "To create a new link later, run `helix ui`. Press Ctrl-C to stop Helix.")
}

type statusCmd struct{}

func (s *statusCmd) Run(c *command) error {
	running, err := c.remote(c.ctx)
	if err != nil {
		return err
	}
	if running == nil {
		if c.JSON {
			if err := c.printJSON(json.RawMessage(`{"running":false}`)); err != nil {
				return err
			}
		} else {
			fmt.Fprintln(c.env.Stdout, "Helix is not running.")
		}
		return failed{ExitCode(fault.Unavailable)}
	}
	return show(c, "system.status", struct{}{}, func(r gateway.SystemStatus) {
		state := "running"
		if r.Recovery {
			state = "running in recovery mode"
		}
		c.fields("state", state, "version", r.Version, "address", running.URL, "process", fmt.Sprint(r.PID),
			"up", span(duration.Of(r.UptimeMs, time.Millisecond)), "memory", size(r.Memory.RSSBytes), "data", r.DataDir)
		for _, d := range r.Degraded {
			fmt.Fprintf(c.env.Stdout, "  %s: %s %s\n", d.Area, plain(d.Reason), plain(d.Hint))
		}
	})
}

type stopCmd struct{}

func (s *stopCmd) Run(c *command) error {
	running, err := c.remote(c.ctx)
	if err != nil {
		return err
	}
	if running == nil {
		c.say("Helix is not running.")
		return nil
	}
	if _, err := c.call("system.stop", struct{}{}, nil); err != nil {
		return err
	}
	deadline := time.NewTimer(15 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if other, err := backend.Running(c.ctx, c.options()); err == nil && other == nil {
			c.say("Stopped.")
			return nil
		}
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return c.ctx.Err()
		case <-deadline.C:
			return fault.New(fault.Timeout, "Helix was asked to stop but still answers.")
		}
	}
}

type versionCmd struct{}

func (v *versionCmd) Run(c *command) error {
	if c.JSON {
		return c.printJSON(map[string]string{"version": backend.Version, "commit": backend.Commit, "go": runtime.Version()})
	}
	fmt.Fprintln(c.env.Stdout, "helix", backend.Version)
	return nil
}

type configPathCmd struct{}

func (p *configPathCmd) Run(c *command) error {
	path, err := backend.ConfigFile(c.options())
	if err != nil {
		return err
	}
	fmt.Fprintln(c.env.Stdout, path)
	return nil
}

type dbMigrateCmd struct{}

func (d *dbMigrateCmd) Run(c *command) error {
	if running, err := c.remote(c.ctx); err != nil {
		return err
	} else if running != nil {
		return fault.Conflictf("Helix is running. Stop it first: `helix stop`.")
	}
	o := c.options()
	o.ReleaseHold = true
	o.Progress = func(step string, done, total int64) { c.say("%s: %d of %d", step, done, total) }
	be, err := c.openBackend(c.ctx, o)
	if err != nil {
		return err
	}
	c.say("The database is up to date.")
	return be.Close()
}

type doctorCmd struct{}

func (d *doctorCmd) Run(c *command) error {
	out := backend.Doctor(c.ctx, c.options())
	if running, err := c.remote(c.ctx); err == nil {
		note := "not running; commands open the data directly"
		if running != nil {
			note = "running at " + running.URL
		}
		out = append(out, backend.Finding{Check: "backend", OK: true, Note: note})
		var st gateway.SystemStatus
		if _, err := c.call("system.status", struct{}{}, &st); err != nil {
			out = append(out, backend.Finding{Check: "status", Note: fault.As(err).Message, Hint: "See helix.log in the state folder."})
		} else {
			for _, g := range st.Degraded {
				out = append(out, backend.Finding{Check: g.Area, Note: g.Reason, Hint: g.Hint})
			}
		}
	} else {
		out = append(out, backend.Finding{Check: "backend", Failed: true, Note: fault.As(err).Message})
	}
	if c.JSON {
		if err := c.printJSON(map[string]any{"findings": out}); err != nil {
			return err
		}
	} else {
		for _, f := range out {
			mark := "ok  "
			switch {
			case f.Failed:
				mark = "FAIL"
			case !f.OK:
				mark = "WARN"
			}
			fmt.Fprintf(c.env.Stdout, "%s  %-12s %s\n", mark, f.Check, plain(f.Note))
			if f.Hint != "" {
				fmt.Fprintf(c.env.Stdout, "                  %s\n", plain(f.Hint))
			}
		}
	}
	if slices.ContainsFunc(out, func(f backend.Finding) bool { return f.Failed }) {
		return failed{1}
	}
	return nil
}
