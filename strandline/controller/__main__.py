"""`python -m strandline.controller`: runs a controller, configured by the environment and a settings file."""

from __future__ import annotations

import gc
import sys


def main() -> int:
    """Returns exit status 0 after a clean stop or `--help`, 2 if a setting is wrong."""
    gc.disable()  # imports make no garbage, and collections take a seventh of their time
    from strandline.adapters.system.own_process import begin_collections, silence_grpc
    from strandline.adapters.system.standard_streams import open_standard_streams

    silence_grpc()
    open_standard_streams()
    import uvloop

    from strandline.adapters.service_host import service_host, stop_on_signals
    from strandline.adapters.system.files import keep_files_private
    from strandline.adapters.system.unknown_settings import warn_of_unknown_names
    from strandline.adapters.telemetry.logs import configure_logging
    from strandline.config.explain.usage import usage
    from strandline.config.load import load
    from strandline.config.services.controller import ControllerSettings
    from strandline.controller.process import serve
    from strandline.errors import SettingsError

    begin_collections()

    async def run(settings: ControllerSettings) -> None:
        host = service_host(settings)
        stop_on_signals(host.stop_requested)
        await serve(settings, host)

    status = 0
    try:
        if (text := usage("strandline.controller", ControllerSettings, sys.argv[1:])) is not None:
            print(text)
        else:
            keep_files_private()
            settings = load(ControllerSettings)
            configure_logging(settings)
            warn_of_unknown_names()
            uvloop.run(run(settings))
    except* SettingsError as group:  # raised alone, or inside a TaskGroup
        for error in group.exceptions:
            print(f"controller: {error}", file=sys.stderr)
        status = 2
    return status


if __name__ == "__main__":
    sys.exit(main())
