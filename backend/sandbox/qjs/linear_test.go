package qjs

import "testing"

func TestLinearLimit(t *testing.T) {
	t.Parallel()
	l := newLinear(8 << 20)
	defer l.release()
	b := l.Reallocate(1 << 20)
	if len(b) != 1<<20 {
		t.Fatalf("%d bytes", len(b))
	}
	b[0], b[1<<20-1] = 1, 2
	l.limit = 4 << 20
	if b = l.Reallocate(4 << 20); len(b) != 4<<20 || b[0] != 1 || b[1<<20-1] != 2 || b[4<<20-1] != 0 {
		t.Fatal("growing lost the content")
	}
	if l.refused.Load() {
		t.Error("refused at the limit")
	}
	if l.Reallocate(4<<20+1<<16) != nil || !l.refused.Load() || l.size.Load() != 4<<20 {
		t.Error("grown above the limit")
	}
	l.limit = 64 << 20
	if l.Reallocate(16<<20) != nil {
		t.Error("grown above the maximum")
	}
	l.Free() // wazero's, while the host may still look at the memory
	if b[0] != 1 {
		t.Error("freed too early")
	}
}
