package hotkey

import (
	"errors"
	"runtime"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	user32         = windows.NewLazySystemDLL("user32.dll")
	registerHotKey = user32.NewProc("RegisterHotKey")
	getMessage     = user32.NewProc("GetMessageW")
	postMessage    = user32.NewProc("PostThreadMessageW")
)

const (
	hotkeyMessage = 0x0312
	quitMessage   = 0x0012
	noRepeat      = 0x4000
)

// message is MSG of the Windows API.
type message struct {
	window  uintptr
	kind    uint32
	wParam  uintptr
	lParam  uintptr
	time    uint32
	x, y    int32
	private uint32
}

// Register calls pressed each time the combination is pressed, until stop is called. pressed must
// not block.
func Register(c Combination, pressed func()) (stop func(), err error) {
	started, ended := make(chan error), make(chan struct{})
	var thread uint32
	go func() {
		defer close(ended)
		runtime.LockOSThread() // the keys belong to a thread, and end with it
		thread = windows.GetCurrentThreadId()
		if ok, _, err := registerHotKey.Call(0, 1, mask(c), uintptr(c.virtual())); ok == 0 {
			if errors.Is(err, windows.ERROR_HOTKEY_ALREADY_REGISTERED) {
				err = ErrTaken
			}
			started <- err
			return
		}
		close(started)
		for {
			var m message
			if more, _, _ := getMessage.Call(uintptr(unsafe.Pointer(&m)), 0, 0, 0); int32(more) <= 0 {
				return
			}
			if m.kind == hotkeyMessage {
				pressed()
			}
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return func() {
		_, _, _ = postMessage.Call(uintptr(thread), quitMessage, 0, 0)
		<-ended
	}, nil
}

func mask(c Combination) uintptr {
	m := uintptr(noRepeat)
	for own, theirs := range map[int]uintptr{Alt: 1, Ctrl: 2, Shift: 4, Super: 8} {
		if c.Modifiers&own != 0 {
			m |= theirs
		}
	}
	return m
}
