package backend

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"helix/backend/bus"
	"helix/backend/config"
	"helix/backend/container"
	"helix/backend/containertools"
	"helix/backend/identity"
	"helix/backend/safehttp"
	"helix/backend/shell"
)

// openEngine creates the connection to a container engine, which is made when it is first needed.
func (b *Backend) openEngine(paths config.Paths, conf config.Config) {
	getenv := b.o.Environ
	if getenv == nil {
		getenv = os.Getenv
	}
	b.engine = container.Open(container.Options{
		Logger: b.log, Owner: paths.Data, Host: conf.ContainerHost, Getenv: getenv,
		Dir: filepath.Join(paths.Cache, "container"), Runtime: filepath.Join(paths.Runtime, "c"), Workspaces: workspaces(paths),
		Changed: func() {
			available := b.engine.Status().Engine != nil
			bus.Publish(b.Bus, b.LocalUser(), containertools.StatusChanged{Available: available})
		},
	})
	b.closing("containers", b.engine.Close)
}

// openContainers registers the tools that run in containers as callables.
func (b *Backend) openContainers(conf config.Config) {
	outside := safehttp.New(safehttp.Options{AllowLoopback: func(int) bool { return true }, DenyPorts: b.ownPort})
	b.closing("connections of containers", func() error { outside.Close(); return nil })
	b.Containers = containertools.New(b.DB, b.engine, containertools.Options{
		Logger: b.log, Permission: b.Permission, Audit: b.Audit, Dial: outside.Dial, Secret: b.Secrets.Value,
		Scrub: func(ctx context.Context, text string) string { return b.scrub(ctx, text) },
	})
	b.closing("image pulls", b.Containers.Close)
	b.Shell = shell.New(b.engine, shell.Options{
		Logger: b.log, Audit: b.Audit.Record, Bus: b.Bus, Image: conf.ContainerShell,
		Workspace: func(ctx context.Context) (string, error) { return b.CoreTools.Folder(ctx) },
		Scrub:     func(ctx context.Context, text string) string { return b.scrub(ctx, text) },
	})
	b.closing("shell sessions", b.Shell.Close)
	b.Permission.Register(string(containertools.Kind), b.Containers, nil)
	b.Permission.RegisterAnswerer(string(containertools.Kind), b.Containers.AnswerApproval)
	b.Callables.Add(b.Containers.Callables())
}

// runContainers ends the runs in the log that the last process left, and removes leftover containers.
func (b *Backend) runContainers(ctx context.Context) error {
	if err := b.Containers.Recover(ctx); err != nil {
		return err
	}
	if b.o.Once { // it ends before an engine has answered
		<-ctx.Done()
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return b.engine.Run(ctx) })
	group.Go(func() error {
		return b.Containers.SweepVolumes(identity.With(ctx, identity.Identity{User: b.LocalUser(), Scopes: identity.Write.Closed(), Client: identity.ClientProgram, Label: "containers", Pipe: "memory"}))
	})
	return group.Wait()
}
