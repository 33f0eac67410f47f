package backend

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"helix/backend/config"
	"helix/backend/embed"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/sandbox"
)

// Finding is the result of one check of Doctor.
type Finding struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Failed bool   `json:"failed,omitempty"` // Helix, or tools, cannot run until it is fixed; others are warnings
	Note   string `json:"note"`
	Hint   string `json:"hint,omitempty"`
}

// Local returns ctx with the identity of the local user and all scopes, for code that runs in the
// same process as the backend.
func (b *Backend) Local(ctx context.Context) context.Context {
	return identity.With(ctx, identity.Identity{User: b.LocalUser(), Scopes: identity.Admin.Closed(), Client: identity.ClientTerminal, Label: "local", Pipe: "memory"})
}

// ConfigFile returns the path of config.toml.
func ConfigFile(o Options) (string, error) {
	p, err := config.FindPaths(config.Machine{Env: o.Environ}, o.DataDir)
	if err != nil {
		return "", err
	}
	return p.ConfigFile(), nil
}

// Doctor checks the installation without opening the database, so that it also works next to a
// running Helix and with a damaged database.
func Doctor(ctx context.Context, o Options) []Finding {
	out := []Finding{}
	fail := func(check, hint, note string, args ...any) {
		out = append(out, Finding{Check: check, Failed: true, Note: fmt.Sprintf(note, args...), Hint: hint})
	}
	add := func(ok bool, check, hint, note string, args ...any) {
		out = append(out, Finding{Check: check, OK: ok, Note: fmt.Sprintf(note, args...), Hint: hint})
	}
	conf, err := config.Load(config.Options{DataDir: o.DataDir, EnvFile: o.EnvFile, Environ: o.Environ})
	if err != nil {
		fail("config", "", "%v", err)
		return out
	}
	paths := conf.Paths()
	problems := conf.Problems()
	for _, p := range problems {
		note := p.Message
		if p.Line > 0 {
			note = fmt.Sprintf("line %d: %s", p.Line, note)
		}
		add(false, "config", p.Hint, "%s", note)
	}
	if len(problems) == 0 {
		add(true, "config", "", "%s", paths.ConfigFile())
	}
	for name, dir := range map[string]string{"data": paths.Data, "state": paths.State} {
		st, err := os.Stat(dir)
		switch {
		case err != nil:
			fail("folders", "Make the folder, or start Helix with --data-dir.", "the %s folder cannot be read", name)
		case runtime.GOOS != "windows" && st.Mode().Perm()&0o077 != 0:
			add(false, "folders", "chmod 700 "+dir, "the %s folder can be read by other users", name)
		default:
			add(true, "folders", "", "%s: %s", name, dir)
		}
	}
	passphrase, _ := conf.Env("HELIX_KEY_PASSPHRASE")
	if root, err := conf.OpenRoot(ctx, config.RootOptions{Keyring: o.Keyring, Passphrase: passphrase}); err == nil {
		bad := root.Problems()
		for _, p := range bad {
			add(false, "keys", p.Hint, "%s", p.Message)
		}
		if len(bad) == 0 {
			add(true, "keys", "", "the key is in its place")
		}
	}
	model, err := embed.Open()
	if err == nil {
		err = model.Check()
		model.Release()
	}
	if err != nil {
		add(false, "memory", "make models", "%s", fault.As(err).Message)
	} else {
		add(true, "memory", "", "the sentence encoder %s is in this build", model.ModelID())
	}
	engine, err := sandbox.Open(ctx, sandbox.Options{CacheDir: filepath.Join(paths.Cache, "engine"), WorkerCommand: o.Worker, Idle: -1})
	if engine == nil {
		fail("sandbox", "", "%v", err)
		return out
	}
	defer engine.Close() //nolint:errcheck // nothing ran in it
	if st := engine.Status(); st.Ready {
		add(true, "sandbox", "", "%s %s", st.Engine.Name, st.Engine.Version)
	} else {
		fail("sandbox", "make engines", "%s", st.Reason)
	}
	return out
}
