"""Word lists that prompts are made of."""

from __future__ import annotations

from typing import Final

__all__ = [
    "CITIES",
    "COLORS",
    "COMPANIES",
    "COURSES",
    "DISHES",
    "FIRST_NAMES",
    "GOODS",
    "INSTRUMENTS",
    "LAST_NAMES",
    "MATERIALS",
    "MONTHS",
    "ODD_JOBS",
    "PLACES",
    "PLANTS",
    "PROFESSIONS",
    "SPORTS",
    "STREETS",
    "SUBJECTS",
    "TEAMS",
    "WEEKDAYS",
]

FIRST_NAMES: Final = (
    *("Ada", "Bruno", "Chiara", "Dmitri", "Elif", "Farid", "Greta", "Hassan", "Ingrid", "Jorge"),
    *("Keiko", "Liam", "Mirela", "Nadia", "Oscar", "Paula", "Quentin", "Rosa", "Samir", "Tilda"),
    *("Umar", "Vera", "Walter", "Ximena", "Yusuf", "Zoe", "Akira", "Beatriz", "Cedric", "Daria"),
    *("Emeka", "Fiona", "Gustav", "Hana", "Ivo", "Jana", "Kofi", "Lucia", "Mateo", "Noor"),
)
LAST_NAMES: Final = (
    *("Abbott", "Bergstrom", "Castillo", "Dubois", "Eriksen", "Fontaine", "Grimaldi", "Haddad"),
    *("Ivanov", "Jansen", "Kowalski", "Lindqvist", "Moreau", "Nakamura", "Osei", "Petrov"),
    *("Quinn", "Rossi", "Sato", "Tanaka", "Ueda", "Vasquez", "Whitaker", "Yilmaz", "Zimmer"),
    *("Barrow", "Calloway", "Dempsey", "Ellison", "Farrow", "Garland", "Holloway", "Mercer"),
)
CITIES: Final = (
    *("Bergen", "Bristol", "Cairo", "Dublin", "Edinburgh", "Florence", "Ghent", "Helsinki"),
    *("Istanbul", "Jakarta", "Krakow", "Lyon", "Madrid", "Nairobi", "Osaka", "Porto", "Quito"),
    *("Riga", "Seville", "Toronto", "Utrecht", "Vienna", "Warsaw", "Zagreb", "Austin", "Denver"),
    *("Adelaide", "Montreal", "Santiago", "Tallinn", "Valencia", "Geneva", "Seattle", "Hanoi"),
)
STREETS: Final = (
    *("Mill Lane", "Station Road", "Oak Avenue", "Castle Street", "River Walk", "King's Parade"),
    *("Chestnut Drive", "Market Square", "Church Hill", "Victoria Terrace", "Garden Row"),
)
COMPANIES: Final = (
    *("Alder Analytics", "Brightwater Foods", "Copper Kettle", "Delta Freight", "Evergreen Tools"),
    *("Foxglove Pharma", "Granite Bank", "Halcyon Media", "Ironbridge Steel", "Juniper Travel"),
    *("Kestrel Aviation", "Lantern Books", "Maple Insurance", "Nimbus Hosting", "Orchard Labs"),
    *("Pinewood Furniture", "Quarry Stone", "Redstart Energy", "Silverline Optics", "Tidal Sports"),
)
PROFESSIONS: Final = (
    *("nurse", "carpenter", "architect", "pharmacist", "teacher", "electrician", "journalist"),
    *("plumber", "translator", "accountant", "geologist", "pilot", "librarian", "chef", "lawyer"),
    *("software engineer", "data analyst", "gardener", "dentist", "photographer", "baker"),
)
GOODS: Final = (
    *("desk fan", "water bottle", "rain jacket", "bicycle pump", "electric kettle", "backpack"),
    *("wireless mouse", "wool scarf", "camping stove", "coffee grinder", "wall clock", "tent"),
    *("yoga mat", "toaster", "sleeping bag", "ceramic vase", "garden hose", "phone charger"),
    *("hiking boots", "bluetooth speaker", "cutting board", "picture frame", "office lamp"),
    *("vacuum cleaner", "umbrella", "chess set", "fountain pen", "cast iron pan", "monitor"),
)
MATERIALS: Final = ("oak", "steel", "cotton", "leather", "glass", "bamboo", "aluminium", "wool")
COLORS: Final = ("red", "blue", "green", "black", "white", "grey", "yellow", "orange", "brown")
MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
WEEKDAYS: Final = (*("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),)
DISHES: Final = (
    *("lentil soup", "vegetable curry", "apple crumble", "mushroom risotto", "tomato salad"),
    *("banana bread", "fish tacos", "potato gratin", "chicken noodle soup", "cheese omelette"),
    *("pumpkin pie", "bean chili", "garlic bread", "fruit smoothie", "spinach lasagna"),
)
SUBJECTS: Final = (
    *("photosynthesis", "the water cycle", "volcanoes", "the French Revolution", "gravity"),
    *("the human heart", "magnetism", "ancient Egypt", "coral reefs", "electric circuits"),
    *("the Silk Road", "whales", "the printing press", "fractions", "earthquakes", "bees"),
    *("the Industrial Revolution", "glaciers", "antibiotics", "the telescope", "rainforests"),
)
COURSES: Final = (
    *("Introduction to Statistics", "Modern Poetry", "Organic Chemistry", "Web Design"),
    *("Microeconomics", "World History", "Linear Algebra", "Music Theory", "Public Speaking"),
)
SPORTS: Final = ("football", "basketball", "tennis", "hockey", "volleyball", "rugby", "handball")
TEAMS: Final = (
    *("Harbor Hawks", "River Foxes", "Mountain Bears", "City Wolves", "Coastal Sharks"),
    *("Valley Eagles", "Northern Stars", "Iron Bulls", "Golden Lions", "Silver Arrows"),
)
INSTRUMENTS: Final = ("piano", "violin", "guitar", "flute", "cello", "trumpet", "drums", "harp")
PLANTS: Final = ("basil", "lavender", "tomato", "rose", "sunflower", "fern", "orchid", "mint")
PLACES: Final = (
    *("lighthouse", "old library", "mountain hut", "night market", "railway museum", "harbour"),
    *("botanical garden", "castle ruin", "fishing village", "desert camp", "observatory"),
)
ODD_JOBS: Final = (
    *("water the plants", "book the dentist", "renew the passport", "send the contract"),
    *("order printer paper", "clean the gutters", "call the landlord", "pay the electricity bill"),
    *("back up the laptop", "pick up the parcel", "update the website", "charge the drill"),
)
