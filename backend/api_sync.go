package backend

import (
	"helix/backend/cloudsync"
	"helix/backend/gateway"
)

func registerSync(b *Backend, a *gateway.API) {
	s := b.Sync
	gateway.Handle(a, "sync.coordinate", gateway.Write, s.Coordinate, gateway.Deadline(hour))
	gateway.Handle(a, "sync.status", gateway.Read, s.Status)
	gateway.Handle(a, "sync.sign_in", gateway.Admin, s.SignIn, gateway.Secret())
	gateway.Handle(a, "sync.setup", gateway.Admin, s.Setup, gateway.Secret(), gateway.Deadline(runLimit))
	gateway.Handle(a, "sync.invite", gateway.Admin, s.Invite, gateway.Secret())
	gateway.Handle(a, "sync.enroll", gateway.Admin, s.Enroll, gateway.Secret(), gateway.Deadline(runLimit))
	gateway.Handle(a, "sync.export_recovery", gateway.Admin, s.ExportRecovery, gateway.Secret())
	gateway.Handle(a, "sync.rotate_key", gateway.Admin, s.RotateKey)
	gateway.Handle(a, "sync.devices", gateway.Read, s.Devices)
	gateway.Handle(a, "sync.revoke_device", gateway.Admin, s.Revoke)
	gateway.Handle(a, "sync.rename_device", gateway.Admin, s.Rename)
	gateway.Handle(a, "sync.presence", gateway.Read, s.Presence)
	gateway.Handle(a, "sync.statistics", gateway.Read, s.Statistics)
	gateway.Handle(a, "sync.change", gateway.Write, s.Change)
	gateway.Handle(a, "sync.pause", gateway.Write, s.Pause)
	gateway.Handle(a, "sync.resume", gateway.Write, s.Resume)
	gateway.Handle(a, "sync.disconnect", gateway.Admin, s.Disconnect)
	gateway.Handle(a, "sync.conflicts", gateway.Read, s.Conflicts)
	gateway.Handle(a, "sync.resolve", gateway.Write, s.Resolve, gateway.Deadline(hour))
	gateway.Alias(a, "sync.resolve_conflict", "sync.resolve")
	gateway.Handle(a, "sync.undo_resolve", gateway.Write, s.UndoResolve, gateway.Deadline(hour))
	gateway.Alias(a, "sync.trash", "trash.list")
	gateway.Alias(a, "sync.restore", "trash.restore")
	gateway.Alias(a, "sync.purge", "trash.purge")
	gateway.Handle(a, "sync.dead_letters", gateway.Read, s.DeadLetters)
	gateway.Handle(a, "sync.retry_dead_letter", gateway.Write, s.RetryDeadLetter)
	gateway.Handle(a, "sync.discard_dead_letter", gateway.Write, s.DiscardDeadLetter)
	gateway.Handle(a, "sync.selftest", gateway.Admin, s.Selftest, gateway.Secret(), gateway.Deadline(runLimit))

	gateway.Forward[cloudsync.StatusChanged](a, "sync.status")
	gateway.Forward[cloudsync.Applied](a, "sync.delta")
	gateway.Forward[cloudsync.Progress](a, "sync.progress")
	gateway.Forward[cloudsync.ConflictsChanged](a, "sync.conflict")
	gateway.Forward[cloudsync.DeadLettersChanged](a, "sync.dead_letter")
}
