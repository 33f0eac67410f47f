package backend

import (
	"helix/backend/containertools"
	"helix/backend/gateway"
	"helix/backend/shell"
)

func registerContainers(b *Backend, a *gateway.API) {
	s := b.Containers
	gateway.Handle(a, "container.status", gateway.Read, s.Status)
	gateway.Handle(a, "container.recheck", gateway.Write, s.Recheck, gateway.Deadline(runLimit))
	gateway.Handle(a, "container.images", gateway.Read, s.Images)
	gateway.Handle(a, "container.image_pull", gateway.Approve, s.Pull, gateway.Costly())
	gateway.Handle(a, "container.pulls", gateway.Read, s.Pulls)
	gateway.Handle(a, "container.pull_cancel", gateway.Write, s.CancelPull)
	gateway.Handle(a, "container.image_import", gateway.Write, uploadOnce(b, func(p containertools.ImportImageParams) (string, bool) { return p.Path, true }, pathParam(b, false, func(p *containertools.ImportImageParams) *string { return &p.Path }, s.ImportImage)), gateway.DocumentedBy(s.ImportImage), gateway.Costly(), gateway.Deadline(hour))
	gateway.Handle(a, "container.image_remove", gateway.Write, s.RemoveImage)
	gateway.Handle(a, "container.volumes", gateway.Read, s.Volumes)
	gateway.Handle(a, "container.volume_remove", gateway.Write, s.RemoveVolume)
	gateway.Handle(a, "container.reap", gateway.Write, s.Reap)
	gateway.Handle(a, "container.tools", gateway.Read, s.Tools)
	gateway.Handle(a, "container.add", gateway.Write, s.Add)
	gateway.Handle(a, "container.approve", gateway.Approve, s.Approve, gateway.Deadline(hour))
	gateway.Handle(a, "container.set_enabled", gateway.Write, s.SetEnabled)
	gateway.Handle(a, "container.revoke", gateway.Write, s.Revoke)
	gateway.Handle(a, "container.clear_state", gateway.Write, s.ClearState)
	gateway.Handle(a, "container.restore_state", gateway.Write, s.RestoreState, gateway.Deadline(hour))
	gateway.Handle(a, "container.run", gateway.Write, s.Run, gateway.Costly(), gateway.Deadline(hour))
	gateway.Handle(a, "container.run_image", gateway.Approve, s.RunImage, gateway.Costly(), gateway.Deadline(hour))
	gateway.Handle(a, "container.kill", gateway.Write, s.Kill)

	sh := b.Shell
	gateway.Handle(a, "shell.spawn", gateway.Write, sh.Spawn, gateway.Costly(), gateway.Deadline(runLimit))
	gateway.Handle(a, "shell.exec", gateway.Write, sh.Exec, gateway.Deadline(hour))
	gateway.Handle(a, "shell.stream", gateway.Read, sh.Stream)
	gateway.Handle(a, "shell.kill", gateway.Write, sh.Kill)
	gateway.Handle(a, "shell.list", gateway.Read, sh.List)

	gateway.Forward[shell.Output](a, "shell.output")
	gateway.Forward[containertools.StatusChanged](a, "container.status_changed")
	gateway.Forward[containertools.Pull](a, "container.pull", gateway.Transient())
	gateway.Forward[containertools.RunChanged](a, "container.run")
}
