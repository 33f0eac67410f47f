package backend

import (
	"helix/backend/cloudsync"
	"helix/backend/gateway"
)

func registerSync(b *Backend, a *gateway.API) {
	s := b.Sync
	gateway.Handle(a, "sync.coordinate", gateway.Write, s.Coordinate, gateway.Deadline(hour))
	gateway.Handle(a, "sync.status", gateway.Read, s.Status)
	gateway.Handle(a, "sync.setup", gateway.Admin, s.Setup, gateway.Secret(), gateway.Deadline(runLimit))
	gateway.Handle(a, "sync.invite", gateway.Admin, s.Invite, gateway.Secret())
	gateway.Handle(a, "sync.enroll", gateway.Admin, s.Enroll, gateway.Secret(), gateway.Deadline(runLimit))
	gateway.Handle(a, "sync.devices", gateway.Read, s.Devices)
	gateway.Handle(a, "sync.revoke_device", gateway.Admin, s.Revoke)
	gateway.Handle(a, "sync.presence", gateway.Read, s.Presence)
	gateway.Handle(a, "sync.statistics", gateway.Read, s.Statistics)
	gateway.Handle(a, "sync.pause", gateway.Write, s.Pause)
	gateway.Handle(a, "sync.resume", gateway.Write, s.Resume)
	gateway.Handle(a, "sync.disconnect", gateway.Admin, s.Disconnect)
	gateway.Handle(a, "sync.conflicts", gateway.Read, s.Conflicts)
	gateway.Handle(a, "sync.resolve", gateway.Write, s.Resolve)
	gateway.Alias(a, "sync.resolve_conflict", "sync.resolve")
	gateway.Handle(a, "sync.dead_letters", gateway.Read, s.DeadLetters)
	gateway.Handle(a, "sync.retry_dead_letter", gateway.Write, s.RetryDeadLetter)
	gateway.Handle(a, "sync.selftest", gateway.Admin, s.Selftest, gateway.Secret(), gateway.Deadline(runLimit))

	gateway.Forward[cloudsync.StatusChanged](a, "sync.status")
	gateway.Forward[cloudsync.Applied](a, "sync.delta")
	gateway.Forward[cloudsync.Progress](a, "sync.progress")
	gateway.Forward[cloudsync.ConflictsChanged](a, "sync.conflict")
}
