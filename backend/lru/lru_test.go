package lru_test

import (
	"testing"

	"helix/backend/lru"
)

func TestEntryUsedLongestAgoIsDropped(t *testing.T) {
	t.Parallel()
	c := lru.New[int, string](2, 0, nil)
	for i := range 3 {
		c.Put(i, "old")
		c.Put(i, "new")
		c.Get(0)
	}
	for i, want := range []string{"new", "", "new"} {
		if v, ok := c.Get(i); v != want || ok != (want != "") {
			t.Errorf("%d is %q, %v", i, v, ok)
		}
	}
	c.Clear()
	if _, ok := c.Get(0); ok {
		t.Error("0 is still there")
	}
}

func TestBytesAreBounded(t *testing.T) {
	t.Parallel()
	c := lru.New[int](256, 100, func(n int) int64 { return int64(n) })
	kept := func() (keys []int) {
		for i := range 11 {
			if _, ok := c.Get(i); ok {
				keys = append(keys, i)
			}
		}
		return keys
	}
	for i := range 10 {
		c.Put(i, 99) // replaced: only the second value counts
		c.Put(i, 25)
	}
	if got := kept(); len(got) != 1 || got[0] != 9 {
		t.Errorf("kept %v beside one of 99 bytes", got)
	}
	for i := range 10 {
		c.Put(i, 25)
	}
	if got := kept(); len(got) != 4 || got[0] != 6 {
		t.Errorf("kept %v, want the last four", got)
	}
	c.Put(10, 1000)
	if got := kept(); len(got) != 1 || got[0] != 10 {
		t.Errorf("kept %v, want only the large one", got)
	}
}
