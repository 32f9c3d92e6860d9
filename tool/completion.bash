# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# What bash offers after weft.

_weft()
{
	local current=${COMP_WORDS[COMP_CWORD]}
	local previous=${COMP_WORDS[COMP_CWORD - 1]}
	local command=${COMP_WORDS[1]}
	local common="--provider --domain --bind --require --verbose --json --help --version"
	local words=

	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "serve send ping info help --help --version --json" -- "$current")
		return
	fi
	case $previous in
	-p | --provider) words="efa tcp shm udp verbs" ;;
	-r | --require) words="rdma efa tcp shm udp verbs" ;;
	-d | --domain | -b | --bind)
		words=$(cd /sys/class/net 2>/dev/null && echo *)
		[ "$previous" = -b ] || [ "$previous" = --bind ] ||
			words="$words $(cd /sys/class/infiniband 2>/dev/null && echo *)"
		;;
	-o | --output | --address-file)
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		return
		;;
	esac
	case $command:$previous in
	send:-f | send:--file)
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		return
		;;
	serve:-s | serve:--service) words="reverse echo discard" ;;
	esac
	if [ -z "$words" ]; then
		case $command in
		serve)
			words="$common --service --rendezvous --address-file --once --max-peers --max-message --memory"
			;;
		send) words="$common --file --output --count --timeout --retry --no-reply --quiet" ;;
		ping) words="$common --count --interval --size --flood --deadline --timeout --quiet" ;;
		info) words="$common" ;;
		help) words="serve send ping info" ;;
		esac
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -F _weft weft
