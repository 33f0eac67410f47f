package backend

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"helix/backend/config"
	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/storage"
)

// Other is a backend of the same person in another process.
type Other struct {
	gateway.Endpoint
	token string
}

// Claim is the lock of a data folder, taken before the backend is opened.
type Claim struct{ release func() }

// ClaimFolder takes the lock of the data folder of o. It fails with Conflict if another process has
// it.
func ClaimFolder(o Options) (*Claim, error) {
	p, err := config.FindPaths(config.Machine{Env: o.Environ}, o.DataDir)
	if err != nil {
		return nil, err
	}
	release, err := storage.Lock(lockFile(p))
	if err != nil {
		return nil, err
	}
	return &Claim{release}, nil
}

// Release gives the lock up. It may be called again. A backend that was opened with the claim does
// so itself.
func (c *Claim) Release() error {
	c.release()
	return nil
}

func lockFile(p config.Paths) string { return filepath.Join(p.Data, "helix.lock") }

// Running looks for a live backend for the data folder of o; nil means that there is none. It
// ignores an endpoint file that a dead process left behind.
func Running(ctx context.Context, o Options) (*Other, error) {
	conf, err := config.Load(config.Options{DataDir: o.DataDir, EnvFile: o.EnvFile, Environ: o.Environ})
	if err != nil {
		return nil, err
	}
	ep, err := gateway.ReadEndpoint(endpointFile(conf.Paths()))
	if errors.Is(err, fs.ErrNotExist) || (err == nil && !ep.Alive(ctx)) {
		return nil, nil
	} else if err != nil {
		return nil, fault.Unavailablef("Couldn't read the endpoint file.").WithCause(err)
	}
	passphrase, _ := conf.Env("HELIX_KEY_PASSPHRASE")
	root, err := conf.OpenRoot(ctx, config.RootOptions{Keyring: o.Keyring, Passphrase: passphrase})
	if err != nil {
		return nil, err
	}
	token, _, err := root.Token(ctx)
	if err != nil {
		return nil, err
	}
	return &Other{Endpoint: ep, token: token}, nil
}

// ClientOptions returns the options for gateway.Dial to reach it with all scopes.
func (o *Other) ClientOptions(client string) gateway.ClientOptions {
	return gateway.ClientOptions{URL: o.URL, Token: o.token, Client: gateway.ClientInfo{ID: client, Version: Version}, Scopes: []string{"admin"}}
}

// Setting returns the value of one text setting, without opening the backend; "" if it cannot be
// read. The window needs a few settings before the backend is open.
func Setting(o Options, key string) string {
	text, _ := setting(o, key).(string)
	return text
}

// Flag is like Setting for a switch.
func Flag(o Options, key string) bool {
	on, _ := setting(o, key).(bool)
	return on
}

func setting(o Options, key string) any {
	conf, err := config.Load(config.Options{DataDir: o.DataDir, Environ: o.Environ})
	if err != nil {
		return nil
	}
	got, err := conf.Get(context.Background(), config.GetParams{Keys: []string{key}})
	if err != nil {
		return nil
	}
	return got.Values[key]
}

// StateDir returns the folder for logs and the window's position, without opening the backend.
func StateDir(dataDir string) string {
	p, err := config.FindPaths(config.Machine{}, dataDir)
	if err != nil {
		return filepath.Join(dataDir, "state")
	}
	return p.State
}
