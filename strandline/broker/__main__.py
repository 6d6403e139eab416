"""`python -m strandline.broker`: reads settings from the environment (`STRANDLINE_…`) and a file, then
serves."""

from __future__ import annotations

import gc
import sys


def main() -> int:
    """Returns exit status 0 after a clean shutdown or `--help`, 2 if a setting is wrong."""
    gc.disable()  # imports make no garbage, and collections take a seventh of their time
    from strandline.adapters.system.own_process import begin_collections, silence_grpc
    from strandline.adapters.system.standard_streams import open_standard_streams

    silence_grpc()
    open_standard_streams()
    import uvloop

    from strandline.adapters.service_host import service_host, stop_on_signals
    from strandline.adapters.system.descriptors import DESCRIPTORS_RESERVED, take_all
    from strandline.adapters.system.files import SYSTEM_FILES, keep_files_private
    from strandline.adapters.system.unknown_settings import warn_of_unknown_names
    from strandline.adapters.telemetry.logs import configure_logging
    from strandline.broker.process import Broker
    from strandline.config.explain.usage import usage
    from strandline.config.load import load
    from strandline.config.services.broker import BrokerSettings
    from strandline.errors import SettingsError

    begin_collections()

    async def run(settings: BrokerSettings) -> None:
        host = service_host(settings)
        stop_on_signals(host.stop_requested)
        await Broker(settings, host).run()

    try:
        if (text := usage("strandline.broker", BrokerSettings, sys.argv[1:])) is not None:
            print(text)
            return 0
        keep_files_private()
        settings = load(BrokerSettings)
        configure_logging(settings)
        warn_of_unknown_names()
        take_all()
        SYSTEM_FILES.reserve.keep(DESCRIPTORS_RESERVED)
        uvloop.run(run(settings))
    except SettingsError as error:
        print(f"broker: {error.message}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
