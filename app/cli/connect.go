package cli

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"helix/backend"
	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/identity"
)

// caller is a connection to a backend: a running one, or one opened for this command.
type caller interface {
	Call(ctx context.Context, method string, params, result any) error
	Events(ctx context.Context, topics []string, after int64, fn func(event) error) error
	Close() error
}

// event is one event in its printed form.
type event struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

func (c *command) options() backend.Options {
	level := slog.LevelWarn
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		level = slog.LevelWarn
	}
	return backend.Options{DataDir: c.DataDir, EnvFile: c.EnvFile, LogTo: level, Keyring: c.env.Keyring, Worker: c.env.Worker}
}

// connect connects to the running backend, or opens one in this process if the data folder is free.
// If a backend starts while connect waits for the folder, it connects to that.
func (c *command) connect() error {
	if c.conn != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.Timeout)
	defer cancel()
	return c.waitTurn(ctx, func() error {
		opts, err := c.remote(ctx)
		if err != nil {
			return err
		}
		if opts != nil {
			client, err := gateway.Dial(ctx, *opts)
			if err != nil {
				return err
			}
			c.conn = &remote{client: client}
			return nil
		}
		own, err := c.open(ctx)
		if err != nil {
			return err
		}
		c.conn = own
		return nil
	})
}

// remote returns how to reach a running backend; nil if there is none.
func (c *command) remote(ctx context.Context) (*gateway.ClientOptions, error) {
	if c.URL != "" {
		o := gateway.ClientOptions{URL: c.URL, Client: gateway.ClientInfo{ID: "helix-cli", Version: backend.Version, Mode: "cli"}, Scopes: []string{"admin", "write", "approve", "read"}}
		if c.TokenFile == "" {
			return nil, fault.Invalidf("--url needs --token-file.")
		}
		b, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return nil, fault.Invalidf("Couldn't read the token file.").WithCause(err)
		}
		o.Token = strings.TrimSpace(string(b))
		return &o, nil
	}
	other, err := backend.Running(ctx, c.options())
	if err != nil || other == nil {
		return nil, err
	}
	o := other.ClientOptions("helix-cli")
	o.Client.Mode = "cli"
	return &o, nil
}

func (c *command) close() {
	if c.conn != nil {
		if err := c.conn.Close(); err != nil && c.LogLevel == "debug" {
			c.say("close: %v", err)
		}
	}
}

// remote is a session with a running backend.
type remote struct{ client *gateway.Client }

func (r *remote) Call(ctx context.Context, method string, params, result any) error {
	return r.client.Call(ctx, method, params, result)
}

func (r *remote) Close() error { return r.client.Close() }

func (r *remote) Events(ctx context.Context, topics []string, after int64, fn func(event) error) error {
	return follow(ctx, r.client, topics, after, fn)
}

// own is a backend in this process, connected by a pipe in memory.
type own struct {
	client *gateway.Client
	be     *backend.Backend
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// backgroundAfter is when the background services of a single command start. Most commands end
// before that and need none of them.
const backgroundAfter = 100 * time.Millisecond

func (c *command) open(ctx context.Context) (_ *own, err error) {
	opts := c.options()
	opts.Once, opts.OnceMemory, opts.OnceSandbox = !c.background, c.memoryWork, c.runsCode
	if c.listens {
		opts.Listen, opts.Web, opts.Flags = true, c.env.Web, map[string]string{"gateway.enabled": "true", "gateway.addr": "127.0.0.1:0"}
	}
	if opts.Once && !opts.OnceMemory {
		// The heap of one command is small and ends with it; collecting garbage took a fifth of the
		// time of `helix tool list`.
		debug.SetGCPercent(400)
	}
	be, err := backend.Open(ctx, opts)
	if err != nil {
		return nil, err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	o := &own{be: be, cancel: cancel}
	server, client := gateway.MemoryPipe()
	o.done.Go(func() {
		if opts.Once && !opts.OnceMemory && !opts.OnceSandbox {
			select {
			case <-time.After(backgroundAfter):
			case <-run.Done():
			}
		}
		_ = be.Run(run) // it ends with this command
	})
	o.done.Go(func() {
		id := identity.Identity{User: be.LocalUser(), Scopes: identity.Admin.Closed(), Client: identity.ClientTerminal, Label: "helix-cli", Pipe: "memory"}
		_ = be.Gateway.Serve(run, server, id) // it ends with this command
	})
	o.client, err = gateway.DialOver(ctx, client, gateway.ClientOptions{Client: gateway.ClientInfo{ID: "helix-cli", Version: backend.Version, Mode: "cli"}, Scopes: []string{"admin", "write", "approve", "read"}})
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

func (o *own) Call(ctx context.Context, method string, params, result any) error {
	return o.client.Call(ctx, method, params, result)
}

func (o *own) Events(ctx context.Context, topics []string, after int64, fn func(event) error) error {
	return follow(ctx, o.client, topics, after, fn)
}

func (o *own) Close() error {
	var err error
	if o.client != nil {
		err = o.client.Close()
	}
	o.cancel()
	o.done.Wait()
	return errors.Join(err, o.be.Close())
}
