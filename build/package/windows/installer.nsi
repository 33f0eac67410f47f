; The installer for one person on Windows; make package-windows fills in VERSION, BIN and OUT. It needs no
; administrator. Removing Helix keeps the data.
Target amd64-unicode
SetCompressor /SOLID lzma
SetCompressorDictSize 128 ; MB: the second program shares the model with the first
!include "MUI2.nsh"
!define NAME "Helix"
!define ID "org.project-helix.desktop"
!define UNINSTALL "Software\Microsoft\Windows\CurrentVersion\Uninstall\${ID}"
!define RUN "Software\Microsoft\Windows\CurrentVersion\Run"
Name "${NAME}"
OutFile "${OUT}"
InstallDir "$LOCALAPPDATA\Programs\Helix"
InstallDirRegKey HKCU "${UNINSTALL}" "InstallLocation"
RequestExecutionLevel user
ManifestDPIAware true
VIProductVersion "${NUMBERS}"
VIAddVersionKey "ProductName" "${NAME}"
VIAddVersionKey "FileDescription" "Installer of Helix"
VIAddVersionKey "FileVersion" "${VERSION}"
VIAddVersionKey "LegalCopyright" "The Helix authors"
!define MUI_ICON "${ICON}"
!define MUI_UNICON "${ICON}"
!define MUI_FINISHPAGE_RUN "$INSTDIR\helix-desktop.exe"
!insertmacro MUI_PAGE_LICENSE "${LICENSE}"
!insertmacro MUI_PAGE_DIRECTORY
!insertmacro MUI_PAGE_COMPONENTS
!insertmacro MUI_PAGE_INSTFILES
!insertmacro MUI_PAGE_FINISH
!insertmacro MUI_UNPAGE_CONFIRM
!insertmacro MUI_UNPAGE_INSTFILES
!insertmacro MUI_LANGUAGE "English"
!insertmacro MUI_LANGUAGE "German"

Section "Helix"
  SectionIn RO
  SetOutPath "$INSTDIR"
  File "${BIN}\helix-desktop.exe"
  File "${BIN}\helix.exe"
  File "/oname=LICENSE.txt" "${LICENSE}"
  File "${BIN}\LICENSES.txt"
  WriteUninstaller "$INSTDIR\uninstall.exe"
  CreateShortcut "$SMPROGRAMS\Helix.lnk" "$INSTDIR\helix-desktop.exe"
  WriteRegStr HKCU "Software\Classes\helix" "" "URL:Helix link"
  WriteRegStr HKCU "Software\Classes\helix" "URL Protocol" ""
  WriteRegStr HKCU "Software\Classes\helix\DefaultIcon" "" "$INSTDIR\helix-desktop.exe,0"
  WriteRegStr HKCU "Software\Classes\helix\shell\open\command" "" '"$INSTDIR\helix-desktop.exe" "%1"'
  WriteRegStr HKCU "${UNINSTALL}" "DisplayName" "${NAME}"
  WriteRegStr HKCU "${UNINSTALL}" "DisplayVersion" "${VERSION}"
  WriteRegStr HKCU "${UNINSTALL}" "Publisher" "The Helix authors"
  WriteRegStr HKCU "${UNINSTALL}" "DisplayIcon" "$INSTDIR\helix-desktop.exe"
  WriteRegStr HKCU "${UNINSTALL}" "InstallLocation" "$INSTDIR"
  WriteRegStr HKCU "${UNINSTALL}" "UninstallString" '"$INSTDIR\uninstall.exe"'
  WriteRegStr HKCU "${UNINSTALL}" "QuietUninstallString" '"$INSTDIR\uninstall.exe" /S'
  WriteRegDWORD HKCU "${UNINSTALL}" "NoModify" 1
  WriteRegDWORD HKCU "${UNINSTALL}" "NoRepair" 1
SectionEnd

; Off unless chosen. Settings > App shows and changes the same entry.
Section /o "Start with Windows"
  WriteRegStr HKCU "${RUN}" "${ID}" '"$INSTDIR\helix-desktop.exe" --hidden'
SectionEnd

Section "Uninstall"
  Delete "$INSTDIR\helix-desktop.exe"
  Delete "$INSTDIR\helix.exe"
  Delete "$INSTDIR\LICENSE.txt"
  Delete "$INSTDIR\LICENSES.txt"
  Delete "$INSTDIR\uninstall.exe"
  RMDir "$INSTDIR"
  Delete "$SMPROGRAMS\Helix.lnk"
  DeleteRegKey HKCU "Software\Classes\helix"
  DeleteRegKey HKCU "${UNINSTALL}"
  DeleteRegValue HKCU "${RUN}" "${ID}"
SectionEnd
