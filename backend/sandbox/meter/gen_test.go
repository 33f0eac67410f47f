package meter

// generator converts any bytes to a valid module whose functions always end: every loop and every
// function first takes a step from a global and exits when none are left.
type generator struct {
	data  []byte
	funcs int
	code  []byte
	open  []bool // enclosing blocks, true for loops
	size  int    // statements so far
}

const (
	genSteps   = 0 // global: remaining steps
	genSum     = 1 // global: what statements computed
	genLocals  = 3 // one parameter, two locals
	genMost    = 200
	genFuncMax = 6
)

func (g *generator) next() byte {
	if len(g.data) == 0 {
		return 0
	}
	b := g.data[0]
	g.data = g.data[1:]
	return b
}

func (g *generator) emit(b ...byte) { g.code = append(g.code, b...) }

// generate makes a module with functions f0, f1, … (i32) -> i32, a memory and a table.
func generate(data []byte) []byte {
	g := &generator{data: data}
	g.funcs = 1 + int(g.next())%genFuncMax
	shape := g.next()
	m := mod{
		imports: []string{"nothing"},
		memory:  []byte{1, 1, 3},
		table:   []byte{1, 8, 20},
		globals: [][]byte{{typeI32, 1, 0x41, 0, opEnd}, {typeI32, 1, 0x41, 0, opEnd}},
		exports: []exportEntry{{name: "memory", kind: kindMemory}, {name: "steps", kind: kindGlobal}, {name: "sum", kind: kindGlobal, index: genSum}},
		datas:   [][]byte{{1, 4, 1, 2, 3, 4}, {0, 0x41, 8, opEnd, 3, 'a', 'b', 'c'}},
		count:   true,
	}
	for f := range g.funcs {
		g.code, g.open = nil, nil
		g.step(func() { g.emit(0x20, 0, opReturn) })
		for range 1 + g.next()%8 {
			g.statement(0)
		}
		g.expression(0)
		name := ""
		if f == 0 || shape>>(f%8)&1 == 1 {
			name = "f" + string(rune('0'+f))
		}
		m.funcs = append(m.funcs, fn{
			name: name, params: []byte{typeI32}, results: []byte{typeI32},
			locals: []byte{1, genLocals - 1, typeI32}, code: g.code,
		})
	}
	if shape&0x80 != 0 { // some functions can be called through the table
		elem := []byte{0, 0x41, 0, opEnd, byte(1 + int(shape)%g.funcs)}
		for i := range elem[4] {
			elem = append(elem, i) // the imported function is among them
		}
		m.elems = [][]byte{elem}
	}
	wasm := m.build()
	return wasm
}

// step takes one step, or exits if none are left.
func (g *generator) step(leave func()) {
	g.emit(0x23, genSteps, 0x45, opIf, 0x40)
	leave()
	g.emit(opEnd, 0x23, genSteps, 0x41, 1, 0x6b, 0x24, genSteps)
}

func (g *generator) block(loop bool, depth int) {
	g.open = append(g.open, loop)
	for range 1 + g.next()%4 {
		g.statement(depth + 1)
	}
	g.open = g.open[:len(g.open)-1]
}

// statement leaves the stack unchanged.
func (g *generator) statement(depth int) {
	if g.size++; g.size > genMost || depth > 12 {
		g.emit(0x01)
		return
	}
	local := func() byte { return g.next() % genLocals }
	switch op := g.next() % 24; op {
	case 0:
		g.emit(opBlock, 0x40)
		g.block(false, depth)
		g.emit(opEnd)
	case 1, 2:
		g.emit(opLoop, 0x40)
		if op == 2 { // a loop that begins with a switch, as interpreters do
			g.dispatch(depth)
		} else {
			g.open = append(g.open, true)
			g.step(func() { g.emit(0x20, 0, opReturn) })
			g.open = g.open[:len(g.open)-1]
			g.block(true, depth)
		}
		if g.next()%2 == 0 {
			g.expression(depth)
			g.emit(opBrIf, 0)
		}
		g.emit(opEnd)
	case 3:
		g.expression(depth)
		g.emit(opIf, 0x40)
		g.block(false, depth)
		if g.next()%2 == 0 {
			g.emit(opElse)
			g.block(false, depth)
		}
		g.emit(opEnd)
	case 4, 5:
		if d, ok := g.target(); ok {
			if op == 5 {
				g.expression(depth)
				g.emit(opBrIf, d)
			} else {
				g.emit(opBr, d)
			}
		}
	case 6:
		n := g.next() % 5
		var labels []byte
		for range n + 1 {
			d, ok := g.target()
			if !ok {
				return
			}
			labels = append(labels, d)
		}
		g.expression(depth)
		g.emit(opBrTable, n)
		g.emit(labels...)
	case 7:
		if g.next()%4 == 0 {
			g.expression(depth)
			g.emit(opReturn)
		}
	case 8:
		g.expression(depth)
		g.emit(opCall, 1+g.next()%byte(g.funcs), 0x24, genSum)
	case 9:
		g.expression(depth)
		g.expression(depth)
		g.emit(0x41, 7, 0x71, opCallIndirect, 1, 0, 0x24, genSum) // & 7
	case 10:
		g.emit(opCall, 0)
	case 11:
		g.pointer(depth)
		g.expression(depth)
		g.emit(0x36, 2, g.next()%64)
	case 12: // memory.fill
		g.pointer(depth)
		g.expression(depth)
		g.pointer(depth)
		g.emit(0x41, 4, 0x76, opPrefixMisc, miscMemoryFill, 0)
	case 13: // memory.copy
		g.pointer(depth)
		g.pointer(depth)
		g.pointer(depth)
		g.emit(0x41, 4, 0x76, opPrefixMisc, miscMemoryCopy, 0, 0)
	case 14: // memory.init
		g.pointer(depth)
		g.emit(0x41, 0, 0x41, g.next()%6, opPrefixMisc, miscMemoryInit, 0, 0)
	case 15:
		g.emit(opPrefixMisc, miscDataDrop, g.next()%2)
	case 16:
		g.emit(0xd0, typeFuncref, 0x41, g.next()%8, opPrefixMisc, miscTableGrow, 0, 0x24, genSum)
	case 17:
		g.emit(0x41, g.next()%16, 0xd0, typeFuncref, 0x41, g.next()%4, opPrefixMisc, miscTableFill, 0)
	case 18:
		g.emit(0x41, g.next()%4, opMemoryGrow, 0, 0x24, genSum)
	case 19:
		for range g.next() { // a long straight line
			g.emit(0x23, genSum, 0x41, 1, 0x6a, 0x24, genSum)
		}
	case 20:
		if g.next() == 0 {
			g.emit(opUnreachable)
		}
	default:
		g.expression(depth)
		g.emit(0x21, local())
		g.emit(0x23, genSum, 0x20, local(), 0x73, 0x24, genSum)
	}
}

// dispatch emits a switch whose arms exit or loop.
func (g *generator) dispatch(depth int) {
	arms := 1 + g.next()%5
	g.open = append(g.open, true)
	// If the loop is among its own labels, it needs a step to end.
	self := g.next()%8 == 0
	if self {
		g.step(func() { g.emit(0x20, 0, opReturn) })
	}
	for range arms {
		g.emit(opBlock, 0x40)
		g.open = append(g.open, false)
	}
	for range g.next() % 6 {
		g.emit(0x01)
	}
	g.emit(0x20, g.next()%genLocals, opBrTable, arms-1)
	for i := range arms {
		if self && g.next()%4 == 0 {
			i = arms
		}
		g.emit(i)
	}
	for range arms {
		g.emit(opEnd)
		g.open = g.open[:len(g.open)-1]
		g.step(func() { g.emit(0x20, 0, opReturn) })
		g.statement(depth + 1)
		g.statement(depth + 1)
		if g.next()%2 == 0 {
			// The arms that are still around, then the loop.
			d := byte(0)
			for i := len(g.open) - 1; !g.open[i]; i-- {
				d++
			}
			g.emit(opBr, d)
		}
	}
	g.open = g.open[:len(g.open)-1]
}

// target selects an enclosing label.
func (g *generator) target() (byte, bool) {
	if len(g.open) == 0 {
		return 0, false
	}
	return g.next() % byte(len(g.open)), true
}

// pointer emits an address or length that is usually in range.
func (g *generator) pointer(depth int) {
	g.expression(depth)
	g.emit(0x41, 0xff, 0x07, 0x71) // & 1023
}

// expression pushes one i32.
func (g *generator) expression(depth int) {
	switch g.next() % 10 {
	case 0, 1:
		g.emit(0x20, g.next()%genLocals)
	case 2:
		g.emit(0x23, genSteps)
	case 3:
		if depth < 12 {
			g.expression(depth + 1)
			g.expression(depth + 1)
			g.emit([]byte{0x6a, 0x6b, 0x6c, 0x6d, 0x70, 0x71, 0x73, 0x77}[g.next()%8])
			return
		}
		g.emit(0x41, 1)
	case 4:
		g.emit(0x23, genSum, 0x28, 0, 0) // may trap
	case 5:
		if depth < 12 {
			g.emit(opBlock, typeI32)
			g.expression(depth + 1)
			g.expression(depth + 1)
			g.emit(opBrIf, 0, 0x41, 5, 0x6a, opEnd)
			return
		}
		g.emit(0x23, genSum)
	case 6:
		g.emit(0x20, g.next()%genLocals, 0x41, 0xff, 0x01, 0x71, 0x2d, 0, 4) // & 255
	default:
		g.code = appendS(append(g.code, 0x41), int64(int8(g.next())))
	}
}
