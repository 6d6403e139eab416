"""The report of a round: one HTML page.

`round_data` has the values of a round, and `reading` makes them of its files; `facts` counts them for
`strandline.report`, and `page` writes `report.html`.
"""
