package backend

import "helix/backend/gateway"

func registerEval(b *Backend, a *gateway.API) {
	gateway.Handle(a, "eval.list", gateway.Read, b.Eval.List)
	gateway.Handle(a, "eval.run", gateway.Write, b.Eval.Run, gateway.Costly())
	gateway.Handle(a, "eval.result", gateway.Read, b.Eval.Result, gateway.Deadline(runLimit))
}
