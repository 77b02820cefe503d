# Writes down what it does, then exits as its arguments say. Parameter ms: how long it works, in steps of 10 ms.
# A shell has no clock that is exact enough: 0.
note() { printf '%s %s %s %s - 0 0 0 0\n' "$1" "$TROUPE_EXECUTION" "$TROUPE_ATTEMPT" "$$" >>"$CHAOS_LOG"; }
note start
case "$1" in
exit) exit "$2" ;;
stay)
	trap '' TERM
	while :; do
		sleep 0.05
		note tick
	done
	;;
esac
left=${TROUPE_PARAM_MS:-0}
while [ "$left" -gt 0 ]; do
	sleep 0.01
	note tick
	left=$((left - 10))
done
note end
printf '{"execution":"%s","attempt":%s,"pid":%s}\n' "$TROUPE_EXECUTION" "$TROUPE_ATTEMPT" "$$"
