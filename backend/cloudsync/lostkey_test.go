package cloudsync

import (
	"context"
	"strings"
	"testing"

	"helix/backend/fault"
)

// A call that is canceled while it reads the keys leaves this device with those that it had: without them, the
// next changes would go to the hub unencrypted, and those of other devices become dead letters.
func TestCanceledCallKeepsTheKeys(t *testing.T) {
	t.Parallel()
	a, b, dsn := connected(t)
	a.remember("the first")
	settleAll(a, b)
	id := a.remember("of the other device")
	a.now()
	gone, cancel := context.WithCancel(b.ctx)
	cancel()
	_ = b.exclusive(b.ctx, func() error {
		l, err := b.local(b.ctx)
		if err != nil {
			return err
		}
		if err = b.loadKey(gone, l); err == nil {
			t.Error("it read the keys all the same")
		}
		b.noteError(err)
		return nil
	})
	secret := b.remember("of this device")
	head := must[StatusResult](t)(a.Status(a.ctx, struct{}{})).Cursor
	b.announced(head)
	if !b.live(b.ctx) {
		t.Error("it did not go on")
	}
	b.noDeadLetters()
	if n := one[int](b, `SELECT count(*) FROM memories WHERE id = ?`, id); n != 1 {
		t.Error("the change of the other device did not come")
	}
	for _, text := range must[[]string](t)(collectText(t.Context(), admin(t, dsn), `select content from public.memories where id = '`+secret.String()+`'`)) {
		if !strings.HasPrefix(text, encrypted) {
			t.Errorf("the hub has %q", text)
		}
	}
}

// A device of an encrypted hub sends nothing without its keys.
func TestNothingIsPackagedWithoutTheKeys(t *testing.T) {
	t.Parallel()
	a, _, _ := connected(t)
	a.cipher = Cipher{}
	a.remember("a secret")
	if n, err := a.packageChanges(a.ctx); n > 0 || !fault.Is(err, fault.Denied) {
		t.Errorf("%d rows were packaged, %v", n, err)
	}
}
