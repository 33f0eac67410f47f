// Package config finds Helix's folders, reads its settings from config.toml, .env files, the
// environment and flags, and keeps the root key in the keyring of the system. It knows no
// domain; every package may be given its values, and backend.Open passes them.
package config

import (
	"time"
)

// Config holds every setting. It is flat and a plain value: copy it freely. The tags are
// the one declaration of a setting: key is its name in config.toml, unit is how its number
// is written there, min and max bound it (inclusive), enum lists its words, check names an
// extra rule, restart marks what is read only at start, and help is one sentence for people.
type Config struct {
	GatewayEnabled              bool          `key:"gateway.enabled" default:"true" restart:"true" help:"Serve programs and browsers on this computer; off leaves only the window."`
	GatewayAddr                 string        `key:"gateway.addr" default:"127.0.0.1:18789" check:"loopback" restart:"true" help:"Address to listen on; it must be a loopback address. When the port is taken, a free one is used."`
	GatewayOrigins              []string      `key:"gateway.origins" default:"" check:"origins" restart:"true" help:"Web origins besides our own that may connect, such as http://localhost:5173."`
	GatewayMaxPayload           int64         `key:"gateway.max_payload" unit:"bytes" default:"16777216" min:"65536" max:"67108864" restart:"true" help:"Largest frame of a connected session, in either direction."`
	GatewayMaxPayloadUnauth     int64         `key:"gateway.max_payload_unauthenticated" unit:"bytes" default:"65536" min:"4096" max:"1048576" restart:"true" help:"Largest frame before a session has proved who it is."`
	GatewayAuthTimeout          time.Duration `key:"gateway.auth_timeout_s" unit:"s" default:"5" min:"1" max:"60" restart:"true" help:"How long a new socket may take to authenticate."`
	GatewayMaxUnauthenticated   int           `key:"gateway.max_unauthenticated" default:"32" min:"1" max:"1024" restart:"true" help:"Sockets that may wait for authentication at once."`
	GatewayMaxSessions          int           `key:"gateway.max_sessions" default:"64" min:"1" max:"4096" restart:"true" help:"Sessions a user may have open at once."`
	GatewayMaxInFlight          int           `key:"gateway.max_in_flight" default:"64" min:"1" max:"1024" restart:"true" help:"Calls of one session that may run at once."`
	GatewayMaxBufferedBytes     int64         `key:"gateway.max_buffered_bytes" unit:"bytes" default:"4194304" min:"65536" max:"268435456" restart:"true" help:"Outgoing bytes that wait for a slow session before its events are dropped."`
	GatewayMaxBufferedEvents    int           `key:"gateway.max_buffered_events" default:"1024" min:"16" max:"65536" restart:"true" help:"Events that wait for a slow session before they are dropped."`
	GatewayReplayEvents         int           `key:"gateway.replay_events" default:"4096" min:"0" max:"65536" restart:"true" help:"Events a user that are kept for sessions that come back."`
	GatewayReplayBytes          int64         `key:"gateway.replay_bytes" unit:"bytes" default:"4194304" min:"0" max:"268435456" restart:"true" help:"Bytes of events a user that are kept for sessions that come back."`
	GatewayTickInterval         time.Duration `key:"gateway.tick_interval_ms" unit:"ms" default:"15000" min:"1000" max:"300000" restart:"true" help:"How often a session is pinged."`
	GatewayTickTimeout          time.Duration `key:"gateway.tick_timeout_ms" unit:"ms" default:"10000" min:"1000" max:"120000" restart:"true" help:"How long a ping may stay without an answer."`
	GatewayCallTimeout          time.Duration `key:"gateway.call_timeout_s" unit:"s" default:"60" min:"1" max:"3600" restart:"true" help:"Longest call, unless the method declares its own limit."`
	GatewayWriteRate            int           `key:"gateway.write_rate" unit:"1/s" default:"2000" min:"1" max:"1000000" restart:"true" help:"Writing calls a session may make each second."`
	GatewayWriteBurst           int           `key:"gateway.write_burst" default:"4000" min:"1" max:"1000000" restart:"true" help:"Writing calls a session may make at once after a pause."`
	GatewayCostlyRate           int           `key:"gateway.costly_rate" unit:"1/s" default:"20" min:"1" max:"10000" restart:"true" help:"Costly calls, such as runs, a user may make each second."`
	GatewayCostlyBurst          int           `key:"gateway.costly_burst" default:"40" min:"1" max:"10000" restart:"true" help:"Costly calls a user may make at once after a pause."`
	GatewayWrongTokensPerMinute int           `key:"gateway.wrong_tokens_per_minute" unit:"1/min" default:"5" min:"1" max:"60" restart:"true" help:"Wrong tokens a peer may present each minute before it has to wait."`
	GatewayTicketsPerMinute     int           `key:"gateway.tickets_per_minute" unit:"1/min" default:"10" min:"1" max:"600" restart:"true" help:"One-time browser tickets that may be made each minute."`
	GatewayHeaderTimeout        time.Duration `key:"gateway.header_timeout_s" unit:"s" default:"5" min:"1" max:"60" restart:"true" help:"How long the head of an HTTP request may take."`
	GatewayMaxHeaderBytes       int           `key:"gateway.max_header_bytes" unit:"bytes" default:"16384" min:"4096" max:"1048576" restart:"true" help:"Largest head of an HTTP request."`
	GatewayIdleTimeout          time.Duration `key:"gateway.idle_timeout_s" unit:"s" default:"120" min:"5" max:"3600" restart:"true" help:"How long an idle HTTP connection is kept."`

	StorageAllowNetworkFS bool `key:"storage.allow_network_fs" default:"false" restart:"true" help:"Open the database on a network file system, where locks are not reliable."`
	StoragePrivate        bool `key:"storage.private" default:"false" restart:"true" help:"Also encrypt memory, pattern, transcript and message texts; search indexes then live in memory and are built at each start."`

	HistoryMaxRows         int64         `key:"history.max_rows" unit:"rows" default:"10000" min:"100" max:"10000000" help:"Runs kept for each user and table."`
	HistoryMaxAge          time.Duration `key:"history.max_age_days" unit:"d" default:"90" min:"1" max:"3650" help:"Days that runs are kept."`
	HistoryPayloadMaxAge   time.Duration `key:"history.payload_max_age_days" unit:"d" default:"7" min:"1" max:"3650" help:"Days after which inputs and outputs above 64 KiB are cut to head and tail."`
	HistoryChangeLogBytes  int64         `key:"history.change_log_max_bytes" unit:"bytes" default:"67108864" min:"1048576" max:"10737418240" help:"Size of the list of changes that wait for other devices."`
	HistoryChangeLogMaxAge time.Duration `key:"history.change_log_max_age_days" unit:"d" default:"7" min:"1" max:"365" help:"Days that changes known to the hub stay in the list."`
	HistoryStatsMaxRows    int64         `key:"history.statistics_max_rows" unit:"rows" default:"50000" min:"1000" max:"10000000" help:"Rows of decay history and statistics kept for each user and table."`
	HistoryStatsMaxAge     time.Duration `key:"history.statistics_max_age_days" unit:"d" default:"180" min:"1" max:"3650" help:"Days that decay history and statistics are kept."`
	HistoryLogMaxAge       time.Duration `key:"history.log_max_age_days" unit:"d" default:"14" min:"1" max:"365" help:"Days that log files are kept."`
	HistoryLogMaxFiles     int           `key:"history.log_max_files" unit:"files" default:"10" min:"1" max:"100" restart:"true" help:"Log files kept."`
	HistoryLogFileBytes    int64         `key:"history.log_max_file_bytes" unit:"bytes" default:"10485760" min:"65536" max:"1073741824" restart:"true" help:"Size at which a new log file is begun."`
	HistoryTrashMaxAge     time.Duration `key:"history.trash_max_age_days" unit:"d" default:"30" min:"1" max:"3650" help:"Days that deleted things can be restored."`
	HistoryBlobGrace       time.Duration `key:"history.blob_grace_hours" unit:"h" default:"24" min:"1" max:"8760" help:"Hours that a stored file stays after the last entry that named it."`

	BackupAuto             string        `key:"backup.auto" default:"daily" enum:"daily,off" help:"Make a backup each day when nothing else runs."`
	BackupMaxBytes         int64         `key:"backup.max_bytes" unit:"bytes" default:"10737418240" min:"104857600" max:"10995116277760" help:"Room that all backups together may take."`
	BackupMaxAge           time.Duration `key:"backup.max_age_days" unit:"d" default:"90" min:"1" max:"3650" help:"Days that backups are kept."`
	BackupKeepDaily        int           `key:"backup.keep_daily" default:"7" min:"1" max:"365" help:"Daily backups kept."`
	BackupKeepWeekly       int           `key:"backup.keep_weekly" default:"4" min:"0" max:"520" help:"Weekly backups kept."`
	BackupKeepPreMigration int           `key:"backup.keep_pre_migration" default:"3" min:"1" max:"100" help:"Copies from before an update of the database that are kept."`

	AuditDetailsMaxAge  time.Duration `key:"audit.details_max_age_days" unit:"d" default:"90" min:"1" max:"3650" help:"Days that the details of audit entries are kept."`
	AuditEntriesMaxAge  time.Duration `key:"audit.entries_max_age_days" unit:"d" default:"400" min:"7" max:"36500" help:"Days that audit entries are kept; the signed row of each segment stays."`
	AuditSegmentEntries int           `key:"audit.segment_entries" default:"1024" min:"16" max:"65536" restart:"true" help:"Entries after which a segment of the audit log is closed and signed."`
	AuditSegmentMaxAge  time.Duration `key:"audit.segment_max_age_s" unit:"s" default:"60" min:"1" max:"3600" restart:"true" help:"Seconds after its first entry when a segment of the audit log is closed and signed."`

	SandboxMinIsolation string `key:"sandbox.minIsolation" default:"process" enum:"inprocess,process,process+landlock,process+landlock+bwrap" restart:"true" help:"Weakest isolation under which modules of other people may run."`

	SkillsMaxLive      int   `key:"skills.max_live" default:"8" min:"1" max:"256" restart:"true" help:"Runs of skills a user may have going on at once; more wait their turn."`
	SkillsMaxQueued    int   `key:"skills.max_queued" default:"1000" min:"1" max:"100000" restart:"true" help:"Runs of skills a user may have waiting for their turn."`
	SkillsMaxInput     int   `key:"skills.max_input_bytes" unit:"bytes" default:"1048576" min:"1024" max:"16777216" restart:"true" help:"Largest input of a skill's run."`
	SkillsMaxDocument  int   `key:"skills.max_document_bytes" unit:"bytes" default:"16777216" min:"65536" max:"268435456" restart:"true" help:"Bytes of input and outputs that one run of a skill may hold."`
	SkillsInlineOutput int   `key:"skills.inline_output_bytes" unit:"bytes" default:"65536" min:"1024" max:"1048576" restart:"true" help:"Outputs of steps above this size are kept as files."`
	SkillsHistoryRuns  int   `key:"skills.history_runs" unit:"rows" default:"1000" min:"1" max:"1000000" restart:"true" help:"Runs kept of each skill."`
	SkillsHistoryBytes int64 `key:"skills.history_max_bytes" unit:"bytes" default:"536870912" min:"1048576" max:"1099511627776" restart:"true" help:"Room that the runs of a user's skills may take."`

	SchedulerEnabled      bool          `key:"scheduler.enabled" default:"true" restart:"true" help:"Start scheduled work when it is due."`
	SchedulerPoll         time.Duration `key:"scheduler.poll_secs" unit:"s" default:"15" min:"1" max:"300" restart:"true" help:"How often the clock is looked at besides the timers, which stand still while the computer sleeps."`
	SchedulerMinInterval  time.Duration `key:"scheduler.min_interval_secs" unit:"s" default:"60" min:"1" max:"86400" restart:"true" help:"Shortest time between two due times of a schedule."`
	SchedulerMaxSchedules int           `key:"scheduler.max_schedules" default:"50" min:"1" max:"10000" restart:"true" help:"Schedules a user may have."`

	MemoryWeights string `key:"memory.weights" default:"" check:"weights" restart:"true" help:"How much words, meaning and what stands beside a text count in memory search, such as 1, 0.4, 0.5; empty is what measured best."`
	MemoryZone    string `key:"memory.zone" default:"" check:"zone" help:"Time zone of times in imported files that name none, such as Europe/Berlin; empty is the computer's."`

	AppCloseToTray bool   `key:"app.close_to_tray" default:"true" help:"Closing the window hides it in the tray, where there is one."`
	AppStartHidden bool   `key:"app.start_hidden" default:"false" restart:"true" help:"Start without a window, where there is a tray to open it from."`
	AppAutostart   bool   `key:"app.autostart" default:"false" help:"Start Helix when you log in."`
	AppHotkey      string `key:"app.hotkey" default:"" check:"hotkey" help:"Keys that show the window from anywhere, such as Ctrl+Shift+H; empty is off."`
	AppTheme       string `key:"app.theme" default:"system" enum:"system,light,dark" help:"Colours of the window."`
	AppGPU         string `key:"app.gpu" default:"auto" enum:"auto,on,off" restart:"true" help:"Draw the window with the graphics card."`

	NotificationsEnabled bool   `key:"notifications.enabled" default:"true" help:"Show notifications of the system."`
	NotificationsPreview bool   `key:"notifications.preview" default:"false" help:"Show contents in notifications, not only that something happened."`
	NotificationsQuiet   string `key:"notifications.quiet" default:"" check:"quiet" help:"Hours in which notifications are collected, such as 22:00-07:00; empty is never."`

	LogLevel string `key:"log.level" default:"info" enum:"debug,info,warn,error" help:"How much is written to the log."`
}

// Default is the configuration without any file, variable or flag.
func Default() Config {
	var c Config
	for _, s := range settings() {
		v, err := s.Parse(s.def)
		if err != nil {
			panic("config: default of " + s.Key + ": " + err.Error()) // a test covers each
		}
		s.put(&c, v)
	}
	return c
}
