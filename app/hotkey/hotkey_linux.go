package hotkey

import (
	"errors"
	"fmt"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// Register calls pressed each time the combination is pressed, until stop is called. pressed must
// not block.
func Register(c Combination, pressed func()) (stop func(), err error) {
	x, err := xgb.NewConn()
	if err != nil {
		return nil, errors.Join(ErrUnsupported, err)
	}
	defer func() {
		if err != nil {
			x.Close()
		}
	}()
	setup := xproto.Setup(x)
	code, err := keycode(x, setup, c.keysym())
	if err != nil {
		return nil, err
	}
	root := setup.DefaultScreen(x).Root
	for _, lock := range locks {
		if err := xproto.GrabKeyChecked(x, true, root, mask(c)|lock, code, xproto.GrabModeAsync, xproto.GrabModeAsync).Check(); err != nil {
			if errors.As(err, new(xproto.AccessError)) {
				return nil, ErrTaken
			}
			return nil, fmt.Errorf("grab the keys: %w", err)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			e, err := x.WaitForEvent()
			if e == nil && err == nil {
				return // the connection is closed
			}
			if _, ok := e.(xproto.KeyPressEvent); ok {
				pressed()
			}
		}
	}()
	return func() {
		x.Close() // which ungrabs the keys
		<-ended
	}, nil
}

// locks are the states of Caps Lock and Num Lock, which count as modifiers.
var locks = []uint16{0, xproto.ModMaskLock, xproto.ModMask2, xproto.ModMaskLock | xproto.ModMask2}

func mask(c Combination) (m uint16) {
	for own, theirs := range map[int]uint16{Ctrl: xproto.ModMaskControl, Alt: xproto.ModMask1, Shift: xproto.ModMaskShift, Super: xproto.ModMask4} {
		if c.Modifiers&own != 0 {
			m |= theirs
		}
	}
	return m
}

// keycode returns the key that produces keysym on this keyboard.
func keycode(x *xgb.Conn, setup *xproto.SetupInfo, keysym uint32) (xproto.Keycode, error) {
	first := setup.MinKeycode
	m, err := xproto.GetKeyboardMapping(x, first, byte(setup.MaxKeycode-first+1)).Reply()
	if err != nil {
		return 0, fmt.Errorf("read the keyboard: %w", err)
	}
	per := int(m.KeysymsPerKeycode)
	for i := 0; per > 0 && i+per <= len(m.Keysyms); i += per {
		if uint32(m.Keysyms[i]) == keysym {
			return first + xproto.Keycode(i/per), nil
		}
	}
	return 0, errors.New("this keyboard has no such key")
}
