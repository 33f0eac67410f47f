// Package config finds Helix's folders, reads its settings from config.toml, .env files, the
// environment and flags, and stores the root key in the system's keyring. It does not depend on any
// domain; backend.Open passes its values to the other packages.
package config

import (
	"time"
)

// Config holds every setting. It is a flat, plain value that may be copied. The tags are the only
// declaration of a setting: key is its name in config.toml, unit is the unit of its number there,
// min and max are its limits (inclusive), enum lists its values, check names an extra rule, restart
// marks settings that are read only at start, and help is one sentence for people.
type Config struct {
	GatewayEnabled     bool          `key:"gateway.enabled" default:"true" restart:"true" help:"Serve programs and browsers on this computer. When off, only the window works."`
	GatewayAddr        string        `key:"gateway.addr" default:"127.0.0.1:18789" check:"loopback" restart:"true" help:"Address to listen on; it must be a loopback address. When the port is taken, a free one is used."`
	GatewayOrigins     []string      `key:"gateway.origins" default:"" check:"origins" restart:"true" help:"Web origins besides our own that may connect, such as http://localhost:5173."`
	GatewayMaxPayload  int64         `key:"gateway.max_payload" unit:"bytes" default:"16777216" min:"65536" max:"67108864" restart:"true" help:"Largest message of a connected session, in either direction."`
	GatewayCostlyRate  int           `key:"gateway.costly_rate" unit:"1/s" default:"20" min:"1" max:"10000" restart:"true" help:"Runs and other costly calls that may start per second."`
	GatewayCallTimeout time.Duration `key:"gateway.call_timeout_s" unit:"s" default:"60" min:"1" max:"3600" restart:"true" help:"Longest a call may take, unless the method has its own limit."`

	StorageAllowNetworkFS bool `key:"storage.allow_network_fs" default:"false" restart:"true" help:"Open the database on a network file system, where locks are not reliable."`
	StoragePrivate        bool `key:"storage.private" default:"false" restart:"true" help:"Also encrypt memory, pattern, transcript and message texts; search indexes then live in memory and are built at each start."`

	HistoryMaxRows       int64         `key:"history.max_rows" unit:"rows" default:"10000" min:"100" max:"10000000" help:"Runs kept for each user and table."`
	HistoryMaxAge        time.Duration `key:"history.max_age_days" unit:"d" default:"90" min:"1" max:"3650" help:"Days that runs are kept."`
	HistoryPayloadMaxAge time.Duration `key:"history.payload_max_age_days" unit:"d" default:"7" min:"1" max:"3650" help:"Days after which inputs and outputs above 64 KiB are cut to head and tail."`
	HistoryLogMaxAge     time.Duration `key:"history.log_max_age_days" unit:"d" default:"14" min:"1" max:"365" help:"Days that log files are kept."`
	HistoryTrashMaxAge   time.Duration `key:"history.trash_max_age_days" unit:"d" default:"30" min:"1" max:"3650" help:"Days that deleted items can be restored."`

	BackupAuto             string        `key:"backup.auto" default:"daily" enum:"daily,off" help:"Back up every day, when nothing else is running."`
	BackupMaxBytes         int64         `key:"backup.max_bytes" unit:"bytes" default:"10737418240" min:"104857600" max:"10995116277760" help:"Disk space for all backups together."`
	BackupMaxAge           time.Duration `key:"backup.max_age_days" unit:"d" default:"90" min:"1" max:"3650" help:"Days that backups are kept."`
	BackupKeepDaily        int           `key:"backup.keep_daily" default:"7" min:"1" max:"365" help:"Daily backups kept."`
	BackupKeepWeekly       int           `key:"backup.keep_weekly" default:"4" min:"0" max:"520" help:"Weekly backups kept."`
	BackupKeepPreMigration int           `key:"backup.keep_pre_migration" default:"3" min:"1" max:"100" help:"Snapshots taken before database upgrades that are kept."`

	AuditDetailsMaxAge time.Duration `key:"audit.details_max_age_days" unit:"d" default:"90" min:"1" max:"3650" help:"Days that the details of audit entries are kept."`
	AuditEntriesMaxAge time.Duration `key:"audit.entries_max_age_days" unit:"d" default:"400" min:"7" max:"36500" help:"Days that audit entries are kept; the signed row of each segment stays."`

	SandboxMinIsolation string `key:"sandbox.minIsolation" default:"process" enum:"inprocess,process,process+landlock,process+landlock+bwrap" restart:"true" help:"Weakest isolation under which WASM tools from other people may run."`

	SkillsMaxLive      int   `key:"skills.max_live" default:"8" min:"1" max:"256" restart:"true" help:"Skills that may run at the same time. Further runs wait in a queue."`
	SkillsHistoryRuns  int   `key:"skills.history_runs" unit:"rows" default:"1000" min:"1" max:"1000000" restart:"true" help:"Runs kept of each skill."`
	SkillsHistoryBytes int64 `key:"skills.history_max_bytes" unit:"bytes" default:"536870912" min:"1048576" max:"1099511627776" restart:"true" help:"Disk space for the run history of skills."`

	MCPServeHTTP     bool   `key:"mcp.serve.http" default:"false" restart:"true" help:"Let other programs with a token call what you exposed, over MCP at /mcp."`
	DiscoveryOnline  bool   `key:"discovery.online" default:"false" help:"Let Discovery read lists of APIs on the web that you added as catalogs."`
	ContainerHost    string `key:"container.host" default:"" check:"engine" restart:"true" help:"Socket of the container engine, such as unix:///run/podman/podman.sock. Empty: the first one found. off: no containers."`
	ContainerShell   string `key:"container.shell_image" default:"docker.io/library/debian:stable-slim" restart:"true" help:"Image of shell sessions. It must be on this computer: containers never pull one."`
	SyncKeepFiles    bool   `key:"sync.keep_files" default:"false" help:"Download the files of synced items to this device, instead of each when it is first opened."`
	SyncVectors      bool   `key:"sync.vectors" default:"false" help:"Also send the embeddings of memories to the hub, so that your other programs can search it by meaning. Only if your texts are not encrypted there."`
	SchedulerEnabled bool   `key:"scheduler.enabled" default:"true" restart:"true" help:"Start scheduled work when it is due."`

	MemoryWeights string `key:"memory.weights" default:"" check:"weights" restart:"true" help:"Weights of words, meaning and context in memory search, such as 1, 0.4, 0.5. Empty uses the defaults, which measured best."`
	MemoryZone    string `key:"memory.zone" default:"" check:"zone" help:"Time zone for imported files that name none, such as Europe/Berlin. Empty uses this computer's."`

	AgentClaudeSkills bool   `key:"agent.claude_skills" default:"false" help:"Also look for skill documents in .claude/skills, in projects that you trust and in your home folder."`
	AgentSearch       string `key:"agent.search" default:"" check:"search" restart:"true" help:"Search engine for web.search: brave, tavily or the address of a SearXNG such as https://searx.example. The key is the secret search.brave or search.tavily. Empty: the tool is off."`

	TelemetryEndpoint string `key:"telemetry.endpoint" default:"" check:"collector" restart:"true" help:"Address of an OpenTelemetry collector, such as http://localhost:4318. It gets times, counts and costs of turns. Empty: nothing is sent, unless OTEL_EXPORTER_OTLP_ENDPOINT is set."`
	TelemetryContent  bool   `key:"telemetry.content" default:"false" restart:"true" help:"Also send what was asked and answered to the collector, without secrets."`

	AppTheme       string `key:"app.theme" default:"system" enum:"system,light,dark" help:"Color theme of the window."`
	AppCloseToTray bool   `key:"app.close_to_tray" default:"true" help:"Keep Helix running in the tray when its window is closed."`
	AppStartHidden bool   `key:"app.start_hidden" default:"false" help:"Start without showing the window."`
	AppHotkey      string `key:"app.hotkey" default:"" help:"Keys that start and stop a voice recording anywhere, such as Ctrl+Shift+Space. Empty means none."`
	AppGPU         string `key:"app.gpu" default:"auto" enum:"auto,on,off" restart:"true" help:"Use the graphics card to draw the window."`

	NotificationsEnabled bool   `key:"notifications.enabled" default:"true" help:"Show notifications. When off, they are only listed in the run history."`
	NotificationsPreview bool   `key:"notifications.preview" default:"false" help:"Show details in notifications, not only their title."`
	NotificationsQuiet   string `key:"notifications.quiet" default:"" check:"quiet" help:"Quiet hours, such as 22:00-07:00. Notifications wait until they end. Empty means none."`

	LogLevel string `key:"log.level" default:"info" enum:"debug,info,warn,error" help:"How much is written to the log."`
}
