// Package app is the desktop program: a Wails window with an embedded backend. It has no features
// of its own. Only the root package imports it.
package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wailsapp/wails/v2"
	"github.com/wailsapp/wails/v2/pkg/logger"
	"github.com/wailsapp/wails/v2/pkg/options"
	"github.com/wailsapp/wails/v2/pkg/options/assetserver"
	"github.com/wailsapp/wails/v2/pkg/options/linux"
	"github.com/wailsapp/wails/v2/pkg/options/mac"
	"github.com/wailsapp/wails/v2/pkg/options/windows"
	"github.com/wailsapp/wails/v2/pkg/runtime"

	"helix/app/notices"
	"helix/app/tray"
	"helix/backend"
	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/identity"
)

// stopLimit is how long an orderly shutdown may take before the rest is abandoned.
const stopLimit = 10 * time.Second

type flags struct {
	hidden, single, version, noTray bool
	dataDir                         string
	links                           []string
}

func parseFlags(args []string) (f flags, err error) {
	fl := flag.NewFlagSet("helix-desktop", flag.ContinueOnError)
	fl.BoolVar(&f.hidden, "hidden", false, "start without showing the window")
	fl.BoolVar(&f.hidden, "start-hidden", false, "the same as --hidden")
	fl.BoolVar(&f.noTray, "no-tray", false, "show no tray icon; closing the window quits")
	fl.BoolVar(&f.single, "single", true, "hand over to a running Helix")
	fl.BoolVar(&f.version, "version", false, "print the version and exit")
	fl.StringVar(&f.dataDir, "data-dir", "", "keep everything under this folder")
	if err := fl.Parse(args); err != nil {
		return f, err
	}
	f.links = fl.Args()
	return f, nil
}

// Main runs the desktop program and returns its exit code: 0 done or handed over to the running
// Helix, 1 failed, 2 usage error.
func Main(args []string, web fs.FS, worker []string) int {
	f, err := parseFlags(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if f.version {
		fmt.Println("helix-desktop", backend.Version)
		return 0
	}
	if !hasDisplay() {
		return noDisplay()
	}
	if os.Getenv("DISPLAY") == "" && os.Getenv("GDK_BACKEND") == "" && isLinux {
		_ = os.Setenv("GDK_BACKEND", "wayland") // Wails asks for X11 unless the session says that it is Wayland
	}
	s := &shell{flags: f, web: web, worker: worker, ready: make(chan struct{}), stopped: make(chan struct{}), painted: make(chan struct{}),
		clicks: make(chan string, maxQueued), poked: make(chan struct{}, 1)}
	s.statePath = backend.StateDir(f.dataDir)
	s.place = loadPlace(filepath.Join(s.statePath, "window.json"))
	if f.single {
		if done, code := s.handOver(); done {
			return code
		}
	}
	s.flags.hidden = f.hidden || backend.Flag(backend.Options{DataDir: f.dataDir}, "app.start_hidden")
	s.notices = notices.New(s.showNotice, s.preferences)
	s.hotkey.pressed = s.toggleRecording
	s.hotkey.state = backend.HotkeyState{State: "off"}
	s.newTray()
	if s.place.NoDMABuf {
		_ = os.Setenv("WEBKIT_DISABLE_DMABUF_RENDERER", "1") // remembered from a start whose page stayed blank
	}
	if s.gpu() == linux.WebviewGpuPolicyNever {
		drawWithoutDrivers()
	}
	return s.run()
}

// shell is the running desktop program.
type shell struct {
	flags     flags
	web       fs.FS
	worker    []string // command that starts the sandbox's child
	statePath string

	ctx    context.Context // Wails' own; valid from startup on
	cancel context.CancelFunc
	bridge *Bridge
	work   sync.WaitGroup

	claim     *backend.Claim // the lock of the data folder, until the backend has it
	icon      tray.Driver
	iconShown func() error  // starts the icon, once, and waits for it
	clicks    chan string   // on the tray
	poked     chan struct{} // the tray may be out of date
	visible   atomic.Bool   // the window is shown, or minimized
	focused   atomic.Bool
	quitting  atomic.Bool // closing the window quits

	mu        sync.Mutex
	menu      []tray.Item // that the tray shows
	look      string      // that the icon shows, with its tooltip
	pageReady bool
	queued    []command
	client    *gateway.Client // the program's own session; nil until the backend is ready

	hotkey        hotkeys
	notices       *notices.Center
	prefs         atomic.Pointer[notices.Preferences]
	noticesReason string // why the desktop shows none; "": it does
	noticesOff    bool   // the connection to the service is closed

	be       *backend.Backend
	remote   gatewayDialer // set instead of be if a headless backend is already running
	failure  *fault.Error
	ready    chan struct{} // closed when be, remote or failure is set
	stopped  chan struct{} // closed when the window closes
	stopOnce sync.Once
	place    place
	saving   sync.Mutex // one save of the place at a time

	painted     chan struct{}
	paintedOnce sync.Once
}

// gatewayDialer opens a session on a backend that runs in another process.
type gatewayDialer func(ctx context.Context) (gateway.Pipe, error)

func (s *shell) run() (code int) {
	defer func() {
		// Wails panics if GTK cannot open the display.
		switch err := recover().(type) {
		case nil:
		case error:
			if !strings.Contains(err.Error(), "init GTK") {
				panic(err)
			}
			code = noDisplay()
		default:
			panic(err)
		}
	}()
	s.bridge = &Bridge{shell: s, pages: gateway.NewBridge(s.servePage, s.emit)}
	opts := &options.App{
		Title: "Helix", Width: s.place.W, Height: s.place.H, MinWidth: minWidth, MinHeight: minHeight,
		StartHidden:        s.flags.hidden,
		BackgroundColour:   options.NewRGB(250, 250, 250),
		AssetServer:        &assetserver.Options{Assets: s.web},
		Menu:               appMenu(s),
		LogLevelProduction: logger.ERROR,
		OnStartup:          s.startup,
		OnDomReady:         func(context.Context) { s.restorePlace() },
		OnBeforeClose:      s.beforeClose,
		OnShutdown:         s.shutdown,
		Bind:               []any{s.bridge},
		Linux:              &linux.Options{ProgramName: "org.project-helix.desktop", WebviewGpuPolicy: s.gpu()},
		Mac:                &mac.Options{OnUrlOpen: func(u string) { s.activate([]string{u}) }},
		Windows:            &windows.Options{},
	}
	if err := wails.Run(opts); err != nil {
		s.removeIcon()
		fmt.Fprintln(os.Stderr, "helix-desktop:", err)
		return 1
	}
	return 0
}

// gpu returns the drawing policy for app.gpu. Auto is off: with software drawing the page always
// appears, while accelerated drawing in WebKit stays blank on some drivers.
func (s *shell) gpu() linux.WebviewGpuPolicy {
	if backend.Setting(backend.Options{DataDir: s.flags.dataDir}, "app.gpu") == "on" {
		return linux.WebviewGpuPolicyAlways
	}
	return linux.WebviewGpuPolicyNever
}

// startup opens the backend in the background, so that the window appears at once.
func (s *shell) startup(ctx context.Context) {
	s.ctx = ctx
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	s.visible.Store(!s.flags.hidden)
	s.work.Go(func() { s.startBackend(run) })
	s.work.Go(func() { s.watchPaint(run) })
	s.work.Go(func() { s.watchSignals(run) })
	runtime.EventsOn(ctx, "window.focused", func(data ...any) {
		on, ok := first[bool](data)
		s.focused.Store(ok && on)
	})
	runtime.EventsOn(ctx, "window.quit", func(...any) { s.quit() })
	s.work.Go(s.repairAutostart)
	s.startTray(run)
	s.startNotices()
}

// first returns the first value of an event of the page.
func first[T any](data []any) (v T, ok bool) {
	if len(data) > 0 {
		v, ok = data[0].(T)
	}
	return v, ok
}

func (s *shell) startBackend(ctx context.Context) {
	if s.remote != nil {
		close(s.ready)
		return
	}
	be, err := backend.Open(ctx, backend.Options{DataDir: s.flags.dataDir, Web: s.web, Worker: s.worker, Listen: true, Desktop: desktop{s}, Claim: s.claim, Progress: s.updating})
	s.mu.Lock()
	if err != nil {
		s.failure = fault.As(err)
		slog.Error("the backend did not start", "err", err)
	} else {
		s.be = be
	}
	s.mu.Unlock()
	close(s.ready)
	if err != nil {
		runtime.EventsEmit(s.ctx, "backend.failed", s.failure.Message)
		return
	}
	if err := be.Run(ctx); err != nil {
		slog.Error("the backend stopped", "err", err)
	}
}

// updating shows the page the progress of a migration. The page cannot call the backend before it
// is open, so the window reports it.
func (s *shell) updating(step string, done, total int64) {
	runtime.EventsEmit(s.ctx, "backend.updating", step, done, total)
}

func (s *shell) backend() *backend.Backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.be
}

// servePage runs the session of one loaded page. It waits for the backend, or reports why it did
// not start.
func (s *shell) servePage(ctx context.Context, p gateway.Pipe) error {
	select {
	case <-s.ready:
	case <-s.stopped:
		return nil
	}
	switch be := s.backend(); {
	case be != nil:
		return be.Gateway.Serve(ctx, p, identity.Identity{User: be.LocalUser(), Scopes: identity.Admin.Closed(), Client: identity.ClientWindow, Label: "window", Pipe: "bridge"})
	case s.remote != nil:
		if err := relay(ctx, p, s.remote); err != nil {
			return refuse(ctx, p, fault.Unavailablef("Helix is no longer responding. Close this window and open Helix again."))
		}
		return nil
	}
	return refuse(ctx, p, s.failure)
}

func (s *shell) emit(session, frame string) { runtime.EventsEmit(s.ctx, "rpc", session, frame) }

// activate shows the window and passes links to the page.
func (s *shell) activate(args []string) {
	s.work.Go(func() {
		select {
		case <-s.painted:
		case <-s.stopped:
			return
		}
		s.show()
		for _, a := range args {
			s.navigate(a)
		}
	})
}

func (s *shell) pageIsReady() {
	s.paintedOnce.Do(func() {
		close(s.painted)
		for _, l := range s.flags.links {
			s.navigate(l)
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pageReady = true
	for _, c := range s.queued {
		s.send(c)
	}
	s.queued = nil
}

// watchPaint restarts the program once, with software drawing, if the page stays blank: with some
// graphics drivers WebKit's default renderer shows nothing.
func (s *shell) watchPaint(ctx context.Context) {
	select {
	case <-s.painted:
		return
	case <-ctx.Done():
		return
	case <-time.After(10 * time.Second):
	}
	if s.place.NoDMABuf || !isLinux {
		slog.Warn("the page has not painted within 10 s")
		return
	}
	slog.Warn("the page has not painted within 10 s; starting again without the DMA-BUF renderer")
	s.mu.Lock()
	s.place.NoDMABuf = true
	s.mu.Unlock()
	s.savePlace()
	exe, err := os.Executable()
	if err != nil {
		return
	}
	s.shutdown(s.ctx)
	if err := syscall.Exec(exe, os.Args, append(os.Environ(), "WEBKIT_DISABLE_DMABUF_RENDERER=1")); err != nil {
		slog.Error("start again", "err", err)
	}
}

func (s *shell) restorePlace() {
	if s.place.Maximised {
		runtime.WindowMaximise(s.ctx)
		return
	}
	all, err := runtime.ScreenGetAll(s.ctx)
	if err != nil {
		return
	}
	screens := []screen{}
	for _, sc := range all {
		screens = append(screens, screen{sc.Size.Width, sc.Size.Height})
	}
	if s.place.visible(screens) {
		runtime.WindowSetPosition(s.ctx, s.place.X, s.place.Y)
	} else {
		runtime.WindowCenter(s.ctx)
	}
}

func (s *shell) savePlace() {
	s.mu.Lock()
	p := s.place
	s.mu.Unlock()
	p.Maximised = runtime.WindowIsMaximised(s.ctx)
	if !p.Maximised {
		p.X, p.Y = runtime.WindowGetPosition(s.ctx)
		p.W, p.H = runtime.WindowGetSize(s.ctx)
	}
	s.saving.Lock() // hiding for the first time saves, and so may quitting at the same time
	defer s.saving.Unlock()
	if err := p.save(filepath.Join(s.statePath, "window.json")); err != nil {
		slog.Warn("window place not saved", "err", err)
	}
}

// shutdown stops the backend in an orderly way and logs what did not end in time.
func (s *shell) shutdown(context.Context) {
	s.stopOnce.Do(func() { close(s.stopped) })
	s.hotkey.close()
	s.notices.Close()
	s.mu.Lock()
	s.noticesOff = true
	s.mu.Unlock()
	runtime.CleanupNotifications(s.ctx)
	s.removeIcon()
	s.bridge.pages.Close()
	if be := s.backend(); be != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		if err := be.Stop(ctx); err != nil {
			slog.Error("stop", "err", err)
		}
	}
	s.cancel()
}
