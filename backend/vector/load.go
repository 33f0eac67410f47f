package vector

import "helix/backend/kernel"

// load reads the whole file: it verifies every record and computes its code. An error of type
// damage means that the file cannot be used.
func (ix *Index) load(path string) error {
	file, st, err := openFile(path, ix.dims, ix.modelID)
	if err != nil {
		return err
	}
	ix.file = file
	if err := ix.loadAll(st); err != nil {
		file.f.Close()
		return err
	}
	return nil
}

func (ix *Index) loadAll(st state) error {
	file := ix.file
	if err := ix.loadRecords(file, st); err != nil {
		return err
	}
	ix.stats.Generation, ix.stats.Slots, ix.stats.FileBytes = st.generation, file.slots, file.offset(file.slots)
	if ix.count < max(firstMean, 2*ix.trained) {
		return nil
	}
	if err := ix.newGeneration(); err != nil { // the process ended before a Flush stored the latest mean
		return err
	}
	for c := range ix.chunks {
		if err := ix.encode(c); err != nil {
			return err
		}
	}
	return nil
}

func (ix *Index) loadRecords(file *sideFile, st state) error {
	slots := (file.bytes - file.data) / int64(file.size)
	if file.bytes < file.data || st.committed < 0 || slots < int64(st.committed) {
		return damage("the file breaks off")
	}
	if slots >= int64(none) {
		return damage("more records than there can be")
	}
	ix.centre, ix.trained = &centre{mean: st.mean}, st.trained
	if file.bytes > file.offset(int(slots)) { // remove the torn last record
		ix.stats.Dropped++
		if err := file.f.Truncate(file.offset(int(slots))); err != nil {
			return err
		}
	}
	file.slots = int(slots)
	seqs := make([]uint64, 0, slots)
	code := make([]uint64, ix.words)
	var buf []float32
	for at := 0; at < file.slots; at += writeRecords {
		n := min(writeRecords, file.slots-at)
		recs, err := file.read(&buf, uint32(at), n)
		if err != nil {
			return err
		}
		for i := range n {
			rec := recs[i*file.stride : (i+1)*file.stride]
			b, slot := asBytes(rec), uint32(at+i)
			id, seq := order.Uint32(b[4:]), order.Uint64(b[16:])
			live := b[0] == flagLive
			switch {
			case live && order.Uint32(b[24:]) == recordSum(b, slot) && isUnit(rec[recordFloats:]):
			case b[0] == flagDead:
				live = false
			case int(slot) < st.committed:
				return damage("a record's checksum is wrong")
			default: // the system lost power before a Flush
				live = false
				ix.stats.Dropped++
				if err := file.mark(slot, flagDead); err != nil {
					return err
				}
			}
			if !live {
				seqs = append(seqs, 0)
				ix.free = append(ix.free, slot)
				continue
			}
			seqs = append(seqs, seq)
			ix.seq = max(ix.seq, seq)
			gone := none
			if old, had := ix.rows.get(id); had { // the process ended between two writes
				if gone = old; seqs[old] > seq {
					gone = slot
				}
			}
			if gone != slot {
				kernel.Signs(code, rec[recordFloats:], ix.centre.mean)
				ix.install(slot, id, order.Uint64(b[8:]), code)
			}
			if gone != none {
				ix.free = append(ix.free, gone)
				if err := file.mark(gone, flagDead); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// isUnit reports whether v has length 1, like all stored vectors. It is false for NaN.
func isUnit(v []float32) bool {
	n := kernel.Dot(v, v)
	return n > 0.99 && n < 1.01
}
