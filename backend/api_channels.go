package backend

import (
	"helix/backend/channels"
	"helix/backend/gateway"
)

func registerChannels(b *Backend, a *gateway.API) {
	s := b.Channels
	gateway.Handle(a, "channels.list", gateway.Read, s.List)
	gateway.Handle(a, "channels.get", gateway.Read, s.Get)
	gateway.Handle(a, "channels.add", gateway.Admin, s.Add, gateway.Secret())
	gateway.Handle(a, "channels.update", gateway.Admin, s.Update, gateway.Secret())
	gateway.Handle(a, "channels.remove", gateway.Admin, s.Remove)
	gateway.Handle(a, "channels.undo", gateway.Admin, s.Undo)
	gateway.Handle(a, "channels.set_enabled", gateway.Write, s.SetEnabled)
	gateway.Handle(a, "channels.test", gateway.Write, s.Test)
	gateway.Handle(a, "channels.senders", gateway.Read, s.Senders)
	gateway.Handle(a, "channels.allow", gateway.Approve, s.Allow)
	gateway.Handle(a, "channels.disallow", gateway.Write, s.Disallow)
	gateway.Handle(a, "channels.pair", gateway.Approve, s.Pair, gateway.Secret())
	gateway.Handle(a, "channels.sessions", gateway.Read, s.ListSessions)
	gateway.Handle(a, "channels.unbind", gateway.Write, s.Unbind)
	gateway.Handle(a, "channels.rejected", gateway.Read, s.Rejected)
	gateway.Handle(a, "channels.send", gateway.Write, s.Send)
	gateway.Handle(a, "channels.routes", gateway.Read, s.Routes)
	gateway.Handle(a, "channels.set_route", gateway.Write, s.SetRoute)
	gateway.Handle(a, "channels.queue", gateway.Read, s.Queue)
	gateway.Handle(a, "channels.retry", gateway.Write, s.Retry)
	gateway.Handle(a, "channels.drop", gateway.Write, s.Drop)

	gateway.Forward[channels.Changed](a, "channels.changed")
	gateway.Forward[channels.Message](a, "channels.message")
	gateway.Forward[channels.Rejected](a, "channels.rejected")
}
