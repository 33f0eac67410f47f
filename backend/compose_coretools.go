package backend

import (
	"maps"
	"path/filepath"

	"helix/backend/config"
	"helix/backend/coretools"
)

// workspaces returns the folder of the users' workspaces.
func workspaces(paths config.Paths) string { return filepath.Join(paths.Data, "workspaces") }

// openCoreTools creates the tools for files and the web, and registers them as built-ins.
func (b *Backend) openCoreTools(paths config.Paths, conf config.Config, own []string) {
	shell := b.o.shell
	if shell == nil {
		shell = b.containerShell(conf)
	}
	b.CoreTools = coretools.New(coretools.Options{
		DB: b.DB, Gate: b.callGate(), Dir: workspaces(paths), Own: own, Logger: b.log,
		TrashAge: b.DB.TrashAge, Shell: shell,
		DenyPort: b.ownPort, Search: conf.AgentSearch, Secret: b.Secrets.Value,
	})
	b.builtins.Add(b.CoreTools.Callables()...)
	maps.Copy(b.subjects, b.CoreTools.Subjects())
	b.closing("core tools", b.CoreTools.Close)
}

// containerShell returns the shell of models, which runs commands in containers.
func (b *Backend) containerShell(conf config.Config) coretools.Shell {
	s := coretools.NewContainerShell(b.engine, conf.ContainerShell)
	b.closing("the shell of models", s.Close)
	return s
}
