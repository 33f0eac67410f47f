package vector

import (
	"helix/backend/kernel"
)

// load reads the whole file: it checks every record and makes its code. An error of type
// damage says that the file cannot be used.
func (ix *Index) load(path string) error {
	file, st, err := openFile(path, ix.dims, ix.modelID)
	if err != nil {
		return err
	}
	if err := ix.loadRecords(file, st); err != nil {
		file.f.Close()
		return err
	}
	ix.file = file
	ix.stats.Generation, ix.stats.Slots, ix.stats.FileBytes = st.generation, file.slots, file.offset(file.slots)
	if ix.count < max(firstMean, 2*ix.trained) {
		return nil
	}
	if err := ix.newGeneration(); err != nil { // it ended before a Flush wrote down the newest mean
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
	info, err := file.f.Stat()
	if err != nil {
		return err
	}
	slots := (info.Size() - file.data) / int64(file.size)
	if info.Size() < file.data || st.committed < 0 || slots < int64(st.committed) {
		return damage("the file breaks off")
	}
	if slots >= int64(none) {
		return damage("more records than there can be")
	}
	ix.centre, ix.trained = &centre{mean: st.mean}, st.trained
	if rest := info.Size() - file.offset(int(slots)); rest > 0 { // the torn last record
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
			case live && order.Uint32(b[24:]) == recordSum(b, slot) && Check(rec[recordFloats:], ix.dims) == nil:
			case b[0] == flagDead:
				live = false
			case int(slot) < st.committed:
				return damage("a record's checksum is wrong")
			default: // power was lost before a Flush
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
