package app

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	goruntime "runtime"
	"sync"
	"syscall"
	"time"

	"github.com/wailsapp/wails/v2/pkg/runtime"

	"helix/app/tray"
	"helix/backend/voice"
)

// newTray makes the icon. On Linux, where it needs only the session bus, it appears while the
// window is still being made.
func (s *shell) newTray() {
	s.icon = tray.None()
	if !s.flags.noTray {
		s.icon = tray.New() // on macOS it must be made here, on the main thread
	}
	s.iconShown = sync.OnceValue(func() error { return s.icon.Start(s.clicked) })
	if isLinux {
		s.work.Go(func() { _ = s.iconShown() }) // startTray handles the error
	}
}

// removeIcon removes the icon from the tray.
func (s *shell) removeIcon() {
	if isLinux {
		_ = s.iconShown() // it may still be starting
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.icon.Close(); err != nil {
		slog.Warn("remove the tray icon", "err", err)
	}
}

// startTray shows the icon and keeps its menu up to date. If that fails, the program works without
// it, and closing the window quits.
func (s *shell) startTray(ctx context.Context) {
	if err := s.iconShown(); err != nil {
		slog.Warn("no tray icon", "err", err)
		s.icon = tray.None()
	}
	if s.flags.hidden && !s.icon.HasHost() {
		// Nothing else could show the window.
		runtime.WindowMinimise(s.ctx)
		runtime.WindowShow(s.ctx)
		s.visible.Store(true)
	}
	s.refresh(tray.State{WindowVisible: s.visible.Load()})
	s.work.Go(func() { s.watchHost(ctx) })
	s.work.Go(func() { s.serveTray(ctx) })
}

// serveTray follows the backend once it is ready, and carries out clicks. Without a backend, Quit
// and Show Window still work.
func (s *shell) serveTray(ctx context.Context) {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return
	}
	c, err := s.dial(ctx)
	if err != nil {
		slog.Warn("the tray has no session", "err", err)
		s.handleClicks(ctx, nil)
		return
	}
	defer c.Close()
	s.mu.Lock()
	s.client = c
	s.mu.Unlock()
	s.loadPreferences(ctx, c)
	s.work.Go(func() { s.handleClicks(ctx, c) })
	s.follow(ctx, c)
}

// refresh shows a new state; nothing changed, no call.
func (s *shell) refresh(state tray.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.stopped: // the icon is closed, or will be
		return
	default:
	}
	menu := tray.Menu(state)
	if ops := tray.Diff(s.menu, menu); len(ops) > 0 {
		if err := s.icon.Apply(ops); err != nil {
			slog.Warn("tray menu", "err", err)
		}
		s.menu = menu
	}
	look, tip := tray.Appearance(state)
	if key := string(look) + tip; key != s.look {
		s.icon.SetState(tray.Icon(look), tip)
		s.look = key
	}
}

// poke makes the tray read the state again.
func (s *shell) poke() {
	select {
	case s.poked <- struct{}{}:
	default: // one is waiting
	}
}

// watchHost shows a hidden window again when there is no tray left to show it from.
func (s *shell) watchHost(ctx context.Context) {
	for {
		select {
		case <-s.icon.HostChanged():
			if !s.visible.Load() && !s.icon.HasHost() {
				s.show()
			}
		case <-ctx.Done():
			return
		}
	}
}

func (s *shell) show() {
	if goruntime.GOOS == "darwin" {
		runtime.Show(s.ctx)
	}
	runtime.WindowShow(s.ctx)
	runtime.WindowUnminimise(s.ctx)
	s.visible.Store(true)
	s.poke()
}

// hide hides the window; on macOS the whole application, so that its Dock icon shows it again.
func (s *shell) hide() {
	if goruntime.GOOS == "darwin" {
		runtime.Hide(s.ctx)
	} else {
		runtime.WindowHide(s.ctx)
	}
	s.visible.Store(false)
	s.focused.Store(false)
	s.poke()
}

// askTime is how long the decision about closing may wait for the backend.
const askTime = 2 * time.Second

// beforeClose decides what closing the window does.
func (s *shell) beforeClose(ctx context.Context) (prevent bool) {
	s.savePlace()
	s.mu.Lock()
	c, ready := s.client, s.pageReady
	s.mu.Unlock()
	state := closeState{quitting: s.quitting.Load(), canAsk: ready && c != nil}
	if !state.quitting {
		state.trayHost, state.closeToTray = s.icon.HasHost(), true
		if c != nil {
			ctx, cancel := context.WithTimeout(ctx, askTime)
			defer cancel()
			state.closeToTray = s.setting(ctx, c, "app.close_to_tray")
			state.busy = !(state.trayHost && state.closeToTray) && s.busy(ctx, c)
		}
	}
	switch closeAction(state) {
	case hide:
		s.hide()
		s.tellOnce()
		return true
	case ask:
		s.show()
		s.order("tray:confirm-quit", "")
		return true
	}
	s.quitting.Store(true)
	return false
}

// quit ends the program from anywhere: a recording is kept, then the window closes, and with it the
// backend.
func (s *shell) quit() {
	if s.quitting.Swap(true) {
		return
	}
	if c := s.session(); c != nil {
		ctx, cancel := context.WithTimeout(s.ctx, stopLimit/2)
		defer cancel()
		var v voice.StatusResult
		if c.Call(ctx, "voice.status", struct{}{}, &v) == nil && v.RecordingID != nil {
			if err := c.Call(ctx, "voice.stop", struct{}{}, nil); err != nil {
				slog.Error("stop the recording", "err", err)
			}
		}
	}
	runtime.Quit(s.ctx)
}

// watchSignals quits on SIGTERM and SIGINT; one that comes three seconds later ends the program at
// once.
func (s *shell) watchSignals(ctx context.Context) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	var since time.Time
	for {
		select {
		case <-signals:
			if since.IsZero() {
				since = time.Now()
				s.work.Go(s.quit)
			} else if time.Since(since) > 3*time.Second {
				slog.Error("ended while stopping")
				os.Exit(1)
			}
		case <-ctx.Done():
			return
		}
	}
}
