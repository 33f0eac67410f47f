package meter

// DefaultBulkSlice is how many bytes one memory.fill or memory.copy processes between two calls
// into Go; it takes about a tenth of a millisecond.
const DefaultBulkSlice = 1 << 20

// bulkKind identifies the functions that split long bulk operations.
type bulkKind byte

const (
	bulkFill bulkKind = iota
	bulkCopy
	bulkKinds
)

var bulkOps = [bulkKinds][]byte{
	bulkFill: {opPrefixMisc, miscMemoryFill, 0},
	bulkCopy: {opPrefixMisc, miscMemoryCopy, 0, 0},
}

// bulk appends the memory.fill or memory.copy at pos, after its check, which left its length in
// local. A short operation is emitted unchanged, a long one as a call of a function that splits it.
// It returns where the operation ends, or pos for operations that need no split, because their
// length is bounded by the size of the module or of a table.
func (w *rewriter) bulk(out []byte, pos int, local uint64) ([]byte, int) {
	r := reader{b: w.m.wasm, p: pos, end: len(w.m.wasm)}
	r.byte()
	var kind bulkKind
	switch r.u32() {
	case miscMemoryFill:
		kind = bulkFill
		r.skip(1)
	case miscMemoryCopy:
		kind = bulkCopy
		r.skip(2)
	default:
		return out, pos
	}
	if !w.pieces[kind].used {
		w.pieces[kind].used = true
		w.pieces[kind].index = w.helper + 1 + uint64(w.added)
		w.added++
	}
	w.threeType = w.typeIndex([]byte{0x60, 3, typeI32, typeI32, typeI32, 0})
	out = appendU(append(out, 0x20), local)
	out = appendS(append(out, 0x41), int64(int32(w.bulkSlice)))
	out = append(out, 0x4b, opIf) // i32.gt_u
	out = appendS(out, w.threeType)
	out = appendU(append(out, opCall), w.pieces[kind].index)
	out = append(out, opElse)
	out = append(out, bulkOps[kind]...)
	return append(out, opEnd), r.p
}

// piecesBody returns the function that does a long operation in pieces of bulkSlice bytes, with a
// call into Go and a check of the stop flag after each. Its parameters are those of the operation:
// destination, value or source, and the length, which is already charged. An operation that does
// not fit into the memory is executed unsplit, and traps before it writes anything.
func (w *rewriter) piecesBody(kind bulkKind) []byte {
	const to, from, length, back = 0, 1, 2, 3
	b := []byte{1, 1, typeI32} // back: offset from the start at which the next piece begins
	ops := func(more ...byte) { b = append(b, more...) }
	get := func(l byte) { ops(0x20, l) }
	slice := func() { b = appendS(append(b, 0x41), int64(int32(w.bulkSlice))) }
	// Pieces of a copy go from the start, or from the end if it moves to higher addresses, so no
	// piece overwrites what a later one reads.
	piece := func(offset func(), size func()) {
		get(to)
		offset()
		ops(0x6a) // i32.add
		get(from)
		if kind == bulkCopy {
			offset()
			ops(0x6a)
		}
		size()
		b = append(b, bulkOps[kind]...)
	}
	whole := func() {
		get(to)
		get(from)
		get(length)
		b = append(b, bulkOps[kind]...)
	}
	outside := func(start byte) { // start + length > size of the memory
		get(start)
		ops(0xad) // i64.extend_i32_u
		get(length)
		ops(0xad, 0x7c, 0x3f, 0, 0xad, 0x42, 16, 0x86, 0x56) // i64.add, memory.size, extended, i64.shl by 16, i64.gt_u
	}
	visit := func() {
		ops(0x41, 0, opMemoryGrow, 0, 0x1a)
		b = appendU(append(b, 0x23), w.stop)
		ops(opIf, 0x40, opUnreachable, opEnd)
	}
	outside(to)
	if kind == bulkCopy {
		outside(from)
		ops(0x72) // i32.or
	}
	ops(opIf, 0x40)
	whole()
	ops(opReturn, opEnd)
	if kind == bulkCopy {
		get(to)
		get(from)
		ops(0x4b, opIf, 0x40) // to > from: from the end
		ops(opLoop, 0x40)
		get(length)
		slice()
		ops(0x6b, 0x21, back) // i32.sub
		piece(func() { get(back) }, slice)
		visit()
		get(back)
		ops(0x22, length)
		slice()
		ops(0x4b, 0x0d, 0, opEnd) // again while length > slice
		whole()
		ops(opReturn, opEnd)
	}
	ops(opLoop, 0x40)
	piece(func() { ops(0x41, 0) }, slice)
	advance := []byte{to}
	if kind == bulkCopy {
		advance = append(advance, from)
	}
	for _, l := range advance {
		get(l)
		slice()
		ops(0x6a, 0x21, l)
	}
	visit()
	get(length)
	slice()
	ops(0x6b, 0x22, length)
	slice()
	ops(0x4b, 0x0d, 0, opEnd)
	whole()
	return append(b, opEnd)
}

// piecesBodies returns the functions that are used, in the order of their indices.
func (w *rewriter) piecesBodies() [][]byte {
	bodies := make([][]byte, w.added)
	for kind, p := range w.pieces {
		if p.used {
			bodies[p.index-w.helper-1] = w.piecesBody(bulkKind(kind))
		}
	}
	return bodies
}
