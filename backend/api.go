package backend

import (
	"context"
	_ "embed" // the generated OpenRPC document
	"time"

	"helix/backend/config"
	"helix/backend/gateway"
	"helix/backend/pause"
	"helix/backend/skills"
	"helix/backend/storage"
	"helix/backend/trash"
)

//go:embed openrpc.json.gz
var openRPC []byte

const (
	hour     = time.Hour       // for long work, which reports progress and can be canceled
	runLimit = 4 * time.Minute // a run takes at most 60 s, an approval 120 s
)

// Register fills a with all methods that clients can call and all events that they can receive, one
// per line. It also works on an empty Backend, which is how the generator reads the table.
func Register(b *Backend, a *gateway.API) {
	registerGateway(b, a)
	registerStorage(b, a)
	registerRights(b, a)
	registerTools(b, a)
	registerSkills(b, a)
	registerComposite(b, a)
	registerSchedules(b, a)
	registerMemory(b, a)
	registerProviders(b, a)
	registerAgent(b, a)
	registerEval(b, a)
	registerTrash(b, a)
	registerSync(b, a)
	registerVoice(b, a)
	registerMCP(b, a)
	registerDiscovery(b, a)
	registerContainers(b, a)
	registerChannels(b, a)
}

func registerGateway(b *Backend, a *gateway.API) {
	g, s := b.Gateway, b.Services
	gateway.Handle(a, "connect", gateway.None, g.Connect)
	gateway.Handle(a, "rpc.discover", gateway.Read, g.Discover)
	gateway.Handle(a, "session.get", gateway.Read, g.SessionGet)
	gateway.Handle(a, "sessions.list", gateway.Admin, g.SessionsList)
	gateway.Handle(a, "sessions.close", gateway.Admin, g.SessionsClose)
	gateway.Handle(a, "sessions.ticket", gateway.Admin, g.SessionsTicket, gateway.Secret())
	gateway.Handle(a, "tokens.create", gateway.Admin, g.TokensCreate, gateway.Secret())
	gateway.Handle(a, "tokens.list", gateway.Admin, g.TokensList)
	gateway.Handle(a, "tokens.revoke", gateway.Admin, g.TokensRevoke)
	gateway.Handle(a, "tokens.rotate_root", gateway.Admin, g.TokensRotateRoot)
	gateway.Handle(a, "events.subscribe", gateway.Read, g.Subscribe)
	gateway.Handle(a, "events.unsubscribe", gateway.Read, g.Unsubscribe)
	gateway.Handle(a, "events.resume", gateway.Read, g.Resume)
	gateway.Handle(a, "blobs.url", gateway.Read, g.BlobsURL)
	gateway.Handle(a, "services.list", gateway.Read, s.List)
	gateway.Handle(a, "services.start", gateway.Write, s.Start)
	gateway.Handle(a, "services.stop", gateway.Write, s.Stop)
	gateway.Handle(a, "services.restart", gateway.Write, s.Restart)
	gateway.Handle(a, "system.status", gateway.Read, g.SystemStatus)
	gateway.Handle(a, "system.stop", gateway.Admin, g.SystemStop)
	gateway.Handle(a, "app.activate", gateway.Write, g.Activate)
	gateway.Handle(a, "app.focused", gateway.Write, b.Focused)
	gateway.Handle(a, "app.state", gateway.Read, b.AppState)
	gateway.Handle(a, "app.set_autostart", gateway.Write, b.SetAutostart)
	gateway.Handle(a, "app.set_hotkey", gateway.Write, b.SetHotkey)
	gateway.Handle(a, "app.pin_skill", gateway.Write, b.Skills.PinSkill)
	gateway.Handle(a, "app.pause_background", gateway.Write, b.PauseBackground)

	for alias, service := range map[string]string{
		"start_memory_synthesis": "memory-synthesis", "start_skill_sandbox": "skill-sandbox", "start_voice_pipeline": "voice-pipeline",
		"start_sync_coordinator": "sync-coordinator", "start_psychology_decay": "psychology-decay",
	} {
		gateway.Alias(a, alias, "services.start", gateway.Preset("name", service))
	}
	gateway.Alias(a, "get_rust_exe_status", "services.list")
	gateway.Alias(a, "stop_rust_exe", "services.stop")
	gateway.Alias(a, "stop_all_rust_exes", "services.stop", gateway.Preset("name", "*"))

	gateway.Forward[gateway.ServicesChanged](a, "services.changed", gateway.Everyone())
	gateway.Forward[gateway.SessionsChanged](a, "sessions.changed")
	gateway.Forward[gateway.TokensChanged](a, "tokens.changed")
}

func registerStorage(b *Backend, a *gateway.API) {
	c, s, k, x := b.Config, b.Storage, b.Keys, b.Secrets
	gateway.Handle(a, "config.get", gateway.Read, c.Get)
	gateway.Handle(a, "config.schema", gateway.Read, c.Schema)
	gateway.Handle(a, "config.set", gateway.Admin, c.Set)
	gateway.Handle(a, "secrets.list", gateway.Admin, x.List)
	gateway.Handle(a, "secrets.set", gateway.Admin, x.Set)
	gateway.Handle(a, "secrets.delete", gateway.Admin, x.Delete)

	gateway.Handle(a, "storage.status", gateway.Read, s.Status)
	gateway.Handle(a, "storage.check", gateway.Admin, s.Check, gateway.Deadline(hour))
	gateway.Handle(a, "storage.backup", gateway.Admin, pathParam(b, true, func(p *storage.BackupParams) *string { return &p.Path }, s.Backup), gateway.DocumentedBy(s.Backup), gateway.Deadline(hour))
	gateway.Handle(a, "storage.backups", gateway.Read, s.Backups)
	gateway.Handle(a, "storage.verify_backup", gateway.Read, pathParam(b, false, func(p *storage.VerifyBackupParams) *string { return &p.Path }, s.VerifyBackup), gateway.DocumentedBy(s.VerifyBackup), gateway.Deadline(hour))
	gateway.Handle(a, "storage.restore", gateway.Admin, uploadOnce(b, func(p storage.RestoreParams) (string, bool) { return p.Path, !p.DryRun }, pathParam(b, false, func(p *storage.RestoreParams) *string { return &p.Path }, s.Restore)), gateway.DocumentedBy(s.Restore), gateway.Deadline(hour))
	gateway.Handle(a, "storage.rollback", gateway.Admin, s.Rollback, gateway.Deadline(hour))
	gateway.Handle(a, "storage.export", gateway.Admin, pathParam(b, true, func(p *storage.ExportParams) *string { return &p.Dir }, s.Export), gateway.DocumentedBy(s.Export), gateway.Deadline(hour))
	gateway.Handle(a, "storage.import", gateway.Admin, uploadOnce(b, func(p storage.ImportParams) (string, bool) { return p.Dir, !p.DryRun }, pathParam(b, false, func(p *storage.ImportParams) *string { return &p.Dir }, s.Import)), gateway.DocumentedBy(s.Import), gateway.Deadline(hour))
	gateway.Handle(a, "storage.migrate", gateway.Admin, s.Migrate, gateway.Deadline(hour))
	gateway.Handle(a, "storage.salvage", gateway.Admin, s.Salvage, gateway.Deadline(hour))
	gateway.Handle(a, "storage.start_new", gateway.Admin, s.StartNew, gateway.Deadline(hour))
	gateway.Handle(a, "storage.prune", gateway.Write, s.Prune, gateway.Deadline(hour))
	gateway.Handle(a, "keys.status", gateway.Admin, k.Status)
	gateway.Handle(a, "keys.rotate", gateway.Admin, k.Rotate)
	gateway.Handle(a, "keys.export_recovery", gateway.Admin, k.ExportRecovery, gateway.Secret())
	gateway.Handle(a, "keys.import_recovery", gateway.Admin, k.ImportRecovery)
	gateway.Handle(a, "keys.unlock", gateway.Admin, k.Unlock)
	gateway.Handle(a, "keys.move_to_keyring", gateway.Admin, k.MoveToKeyring)

	gateway.Forward[config.Changed](a, "config.changed", gateway.Everyone())
	gateway.Forward[storage.Changed](a, "storage.changed")
	gateway.Forward[pause.Changed](a, "app.background_changed", gateway.Everyone())
	gateway.Forward[skills.PinsChanged](a, "app.pins_changed")
	gateway.Forward[storage.LowSpace](a, "storage.low_space", gateway.Everyone())
	gateway.Forward[storage.Recovery](a, "storage.recovery", gateway.Everyone())
	gateway.Forward[storage.BackupProgress](a, "storage.backup_progress", gateway.Everyone())
}

func registerTrash(b *Backend, a *gateway.API) {
	s := b.Trash
	gateway.Handle(a, "trash.list", gateway.Read, s.List)
	gateway.Handle(a, "trash.restore", gateway.Write, s.Restore)
	gateway.Handle(a, "trash.purge", gateway.Admin, s.Purge, gateway.Deadline(hour))
	gateway.Handle(a, "trash.empty", gateway.Admin, s.Empty, gateway.Deadline(hour))

	gateway.Forward[trash.Changed](a, "trash.changed")
}

// pathParam wraps fn so that one path parameter is resolved before it runs.
func pathParam[P, R any](b *Backend, write bool, field func(*P) *string, fn func(context.Context, P) (R, error)) func(context.Context, P) (R, error) {
	return func(ctx context.Context, p P) (R, error) {
		f := field(&p)
		path, err := b.Picks.Resolve(ctx, *f, write)
		if err != nil {
			var zero R
			return zero, err
		}
		*f = path
		return fn(ctx, p)
	}
}

// uploadOnce wraps fn so that the upload is removed after a call has used it. of returns its token,
// and whether the call uses it up or only reads it.
func uploadOnce[P, R any](b *Backend, of func(P) (token string, takes bool), fn func(context.Context, P) (R, error)) func(context.Context, P) (R, error) {
	return func(ctx context.Context, p P) (R, error) {
		r, err := fn(ctx, p)
		if token, takes := of(p); err == nil && takes {
			b.uploads.Done(token)
		}
		return r, err
	}
}
