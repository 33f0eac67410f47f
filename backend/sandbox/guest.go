package sandbox

import "helix/backend/sandbox/qjs"

// guest is an instance with the prelude loaded. It serves one run at a time.
type guest struct {
	in  *qjs.Instance
	run *run // nil between runs
}

// The codes of the functions that the host can call in the prelude.
const (
	enterSetUp = iota
	enterStart
	enterDeliver
	enterFire
	enterDone
	enterFail
	enterModule
)

// host handles a call of the prelude's host function.
func (g *guest) host(in *qjs.Instance, args []qjs.Value) qjs.Value {
	if g.run == nil || len(args) == 0 {
		return 0
	}
	return g.run.host(in, int(in.Float(args[0])), args[1:])
}
