package linear

import "testing"

func TestGrowthIsRefusedAboveTheLimit(t *testing.T) {
	t.Parallel()
	l, err := New(&Image{}, 8<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	b := l.Reallocate(1 << 20)
	if len(b) != 1<<20 {
		t.Fatalf("%d bytes", len(b))
	}
	b[0], b[1<<20-1] = 1, 2
	l.Limit = 4 << 20
	if b = l.Reallocate(4 << 20); len(b) != 4<<20 || b[0] != 1 || b[1<<20-1] != 2 || b[4<<20-1] != 0 {
		t.Fatal("growing lost the content")
	}
	if l.Refused() {
		t.Error("refused at the limit")
	}
	if l.Reallocate(4<<20+1<<16) != nil || !l.Refused() || l.Size() != 4<<20 {
		t.Error("grown above the limit")
	}
	l.Limit = 64 << 20
	if l.Reallocate(16<<20) != nil {
		t.Error("grown above the maximum")
	}
	l.Free() // called by wazero while the host may still read the memory
	if b[0] != 1 {
		t.Error("freed too early")
	}
}
