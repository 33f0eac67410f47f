package sandbox

import (
	"context"

	"helix/backend/sandbox/worker"
)

// wanted is a child that has loaded the module.
func (m *Module) wanted() *wanted {
	return &wanted{
		key: worker.KindWASM + m.info.SHA256, hello: worker.Hello{Kind: worker.KindWASM},
		code: func() []byte { return encodePrepared(m.prepared) },
	}
}

// workerModule makes the module that the parent has sent, with its machine code from the
// cache when it is there, and the one instance that it needs.
func (e *Engine) workerModule(code []byte) (*Module, error) {
	p, err := decodePrepared(code)
	if err != nil {
		return nil, err
	}
	if err := e.modules.open(e); err != nil {
		return nil, err
	}
	c, err := e.modules.link(context.Background(), e, p)
	if err != nil {
		return nil, err
	}
	in, err := c.take()
	if err != nil {
		return nil, err
	}
	c.release(in, true)
	return &Module{info: p.Info, code: c, prepared: p}, nil
}
